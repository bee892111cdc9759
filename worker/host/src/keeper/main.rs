//! The keeper starts the other processes of a browser's family and outlives them.
//!
//! If the machine supports it, the family is confined, and the keeper is process 1 of a PID namespace. It adopts
//! orphans, and when it exits, the kernel ends the remaining processes. A browser that exits in order therefore has time
//! to write its sites' data, and a browser that loses its display or its keeper ends at once.
//!
//! The keeper is a separate program because the host's libraries take 20 MiB of memory before they do anything.

mod display;
mod egress_relay;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, PipeReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use clap::Parser;

use crate::display::Display;

/// The kernel kills browsers first when memory runs out. A browser is one session, and any other process would affect
/// all of them.
const OOM_SCORE: &[u8] = b"500";

/// Parameters that are fixed for the life of a browser.
#[derive(Debug, Parser)]
#[command(version, about = "Starts a display and a host on it, and waits until both have ended")]
struct Arguments {
    /// Folder for everything that the browser writes
    #[arg(long)]
    data_dir: PathBuf,
    /// The browser has its own network: forward its traffic to the guard's socket
    #[arg(long)]
    confined: bool,
    /// The host and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    host: Vec<OsString>,
}

fn main() -> ExitCode {
    keep(&Arguments::parse()).unwrap_or_else(|message| {
        log_to_stderr(&message);
        ExitCode::FAILURE
    })
}

fn keep(arguments: &Arguments) -> Result<ExitCode, String> {
    die_with_parent()?;
    adopt_orphans()?;
    lower_priority();
    if arguments.confined {
        egress_relay::open(&arguments.data_dir).map_err(|error| format!("no egress route: {error}"))?;
    }
    let (display, number) =
        Display::start(&arguments.data_dir).map_err(|error| format!("Xvfb did not start: {error}"))?;
    let host =
        start_host(&arguments.host, &display, number).map_err(|error| format!("the host did not start: {error}"))?;
    // The host holds the pipes. The worker detects its end by their end, so the keeper must not hold them too.
    close_pipes().map_err(|error| format!("standard input and output: {error}"))?;
    Ok(wait(&host, &display))
}

/// Writes a message to standard error, which the worker copies to its log.
fn log_to_stderr(message: &str) {
    let _ = io::stderr().write_all(format!("kitfleet-keeper: {message}\n").as_bytes());
}

/// Makes the kernel kill this process when the thread that started it ends.
fn die_with_parent() -> Result<(), String> {
    let parent = parent_id();
    set_parent_death_signal().map_err(|error| format!("PR_SET_PDEATHSIG: {error}"))?;
    // The parent may have ended before the call.
    if parent_id() == parent { Ok(()) } else { Err("the parent is gone".to_owned()) }
}

/// One system call, which allocates nothing.
fn set_parent_death_signal() -> io::Result<()> {
    // SAFETY: this option takes one integer argument and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn adopt_orphans() -> Result<(), String> {
    // SAFETY: this option takes one integer argument and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    if done == 0 { Ok(()) } else { Err(format!("PR_SET_CHILD_SUBREAPER: {}", io::Error::last_os_error())) }
}

/// Lowers the priority of pages in the use of processors and memory, so that the worker can answer callers. If any of
/// this is rejected, everything else works as before.
fn lower_priority() {
    const NICER_BY: libc::c_int = 5;
    // SAFETY: these calls change numbers that the kernel keeps for this process, and read one structure that is valid.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICER_BY);
        // A core dump would contain private data, and fill the disk.
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 });
    }
    let _ = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// Starts the host. It loads its libraries while the display starts, and then reads the display's number.
fn start_host(program: &[OsString], display: &Display, number: PipeReader) -> io::Result<Child> {
    let (program, arguments) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = command_with_death_signal(Path::new(program));
    command.args(arguments).arg("--display-from").arg(number.as_raw_fd().to_string());
    command.env("XAUTHORITY", display.authority());
    let inherit = move || {
        // SAFETY: the descriptor is open for as long as this closure owns it, and no memory is touched.
        let done = unsafe { libc::fcntl(number.as_raw_fd(), libc::F_SETFD, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure only makes this call between fork and exec.
    unsafe { command.pre_exec(inherit) };
    command.spawn()
}

fn close_pipes() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    for pipe in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
        // SAFETY: both descriptors are open, and nothing here reads the one or writes the other.
        if unsafe { libc::dup2(nothing.as_raw_fd(), pipe) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Reaps all children, including adopted ones.
fn wait(host: &Child, display: &Display) -> ExitCode {
    let mut ended = ExitCode::FAILURE;
    loop {
        let mut status = 0;
        // SAFETY: the call writes to a valid integer.
        let child = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        match u32::try_from(child) {
            Ok(child) if child == host.id() => {
                let code = ExitStatus::from_raw(status).code().and_then(|code| u8::try_from(code).ok());
                ended = code.map_or(ExitCode::FAILURE, ExitCode::from);
                // The remaining processes write to the disk and do not need the display.
                display.stop();
            }
            // A browser without its display cannot work. It ends with this process.
            Ok(child) if child == display.id() && !display.is_stopped() => {
                log_to_stderr("Xvfb ended");
                return ExitCode::FAILURE;
            }
            Ok(_) => {}
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return ended,
        }
    }
}

/// Returns a command whose process the kernel kills when this process's only spawning thread ends.
fn command_with_death_signal(program: &Path) -> Command {
    let mut command = Command::new(program);
    // SAFETY: the closure only makes this call between fork and exec.
    unsafe { command.pre_exec(set_parent_death_signal) };
    command
}
