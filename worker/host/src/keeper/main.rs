//! The keeper: the first process of a browser's family, which starts the others and outlives them.
//!
//! Where the machine allows that, the family is confined, and the keeper is the first process of a machine of its own:
//! it adopts what others leave, and when it ends, the kernel ends whatever is left. So a browser that ends in good order
//! has the time to write down what its sites have stored, and one that loses its display, or its keeper, is gone at once.
//!
//! It is a program of its own because the host's libraries cost 20 MiB of memory before they do anything.

mod display;
mod way_out;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, PipeReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use clap::Parser;

use crate::display::Display;

/// The kernel takes these first when memory runs out: a browser is one session, whatever else dies is all of them.
const OOM_SCORE: &[u8] = b"500";

/// What is fixed for the life of a browser.
#[derive(Debug, Parser)]
#[command(version, about = "Starts a display and a host on it, and waits until nothing is left of either")]
struct Arguments {
    /// Where everything lies that the browser writes.
    #[arg(long)]
    data_dir: PathBuf,
    /// The browser has a network of its own: lead to the guard's socket.
    #[arg(long)]
    confined: bool,
    /// The host, and what it is told.
    #[arg(trailing_var_arg = true, required = true)]
    host: Vec<OsString>,
}

fn main() -> ExitCode {
    keep(&Arguments::parse()).unwrap_or_else(|message| {
        complain(&message);
        ExitCode::FAILURE
    })
}

fn keep(arguments: &Arguments) -> Result<ExitCode, String> {
    die_with_parent()?;
    adopt_orphans()?;
    step_back();
    if arguments.confined {
        way_out::open(&arguments.data_dir).map_err(|error| format!("no way out: {error}"))?;
    }
    let (display, number) =
        Display::start(&arguments.data_dir).map_err(|error| format!("Xvfb did not start: {error}"))?;
    let host =
        start_host(&arguments.host, &display, number).map_err(|error| format!("the host did not start: {error}"))?;
    // The host has the pipes. Its end is theirs, which the worker would not hear of if they were here too.
    let_go_of_pipes().map_err(|error| format!("standard input and output: {error}"))?;
    Ok(wait(&host, &display))
}

/// The worker keeps this for its log.
fn complain(message: &str) {
    let _ = io::stderr().write_all(format!("kitfleet-keeper: {message}\n").as_bytes());
}

/// It outlives its parent in no case: the kernel kills it with the thread that started it.
fn die_with_parent() -> Result<(), String> {
    let parent = parent_id();
    ask_to_die_with_parent().map_err(|error| format!("PR_SET_PDEATHSIG: {error}"))?;
    // The parent may have died before the kernel was asked.
    if parent_id() == parent { Ok(()) } else { Err("the parent is gone".to_owned()) }
}

/// One system call, which allocates nothing.
fn ask_to_die_with_parent() -> io::Result<()> {
    // SAFETY: this option takes one integer argument and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn adopt_orphans() -> Result<(), String> {
    // SAFETY: this option takes one integer argument and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    if done == 0 { Ok(()) } else { Err(format!("PR_SET_CHILD_SUBREAPER: {}", io::Error::last_os_error())) }
}

/// Pages may keep the processors as busy as they like, and have as much memory: whoever answers their callers comes
/// first. Where any of this is refused, everything works as before.
fn step_back() {
    const NICER_BY: libc::c_int = 5;
    // SAFETY: these change numbers that the kernel keeps of this process, and read one structure that is there.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICER_BY);
        // What a process had in memory when it crashed is nobody's business, and would fill the disk.
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
    }
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// The host loads its libraries while the display starts, and then reads the display's number.
fn start_host(program: &[OsString], display: &Display, number: PipeReader) -> io::Result<Child> {
    let (program, arguments) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = servant(Path::new(program));
    command.args(arguments).arg("--display-from").arg(number.as_raw_fd().to_string());
    command.env("XAUTHORITY", display.authority());
    let inherit = move || {
        // SAFETY: the descriptor is open for as long as this closure owns it, and no memory is touched.
        let done = unsafe { libc::fcntl(number.as_raw_fd(), libc::F_SETFD, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it does nothing but this.
    unsafe { command.pre_exec(inherit) };
    command.spawn()
}

fn let_go_of_pipes() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    for pipe in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: both descriptors are open, and nothing here reads the one or writes the other.
        if unsafe { libc::dup2(nothing.as_raw_fd(), pipe) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Waits for everybody, adopted ones too.
fn wait(host: &Child, display: &Display) -> ExitCode {
    let mut ended = ExitCode::FAILURE;
    loop {
        let mut status = 0;
        // SAFETY: it writes to an integer that is there.
        let child = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        match u32::try_from(child) {
            Ok(child) if child == host.id() => {
                let code = ExitStatus::from_raw(status).code().and_then(|code| u8::try_from(code).ok());
                ended = code.map_or(ExitCode::FAILURE, ExitCode::from);
                // What is left writes to the disk, and shows nothing.
                display.stop();
            }
            // A browser without its display is dead: it ends with this process.
            Ok(child) if child == display.id() && !display.is_stopped() => {
                complain("Xvfb ended");
                return ExitCode::FAILURE;
            }
            Ok(_) => {}
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return ended,
        }
    }
}

/// A command whose process the kernel kills with this one's only thread that starts any.
fn servant(program: &Path) -> Command {
    let mut command = Command::new(program);
    // SAFETY: between fork and exec it does nothing but this.
    unsafe { command.pre_exec(ask_to_die_with_parent) };
    command
}
