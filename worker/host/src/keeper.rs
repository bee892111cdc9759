//! The keeper: the first process of a browser's family, which starts the others and outlives them.
//!
//! Where the machine allows that, the family is confined, and the keeper is the first process of a machine of its own:
//! it adopts what others leave, and when it ends, the kernel ends whatever is left. So a browser that ends in good order
//! has the time to write down what its sites have stored, and one that loses its display, or its keeper, is gone at once.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::{env, fs};

use crate::display::Display;
use crate::{Arguments, way_out};

/// As `ps` shows it: the host is another process of the same program.
const NAME: &std::ffi::CStr = c"kitfleet-keeper";

/// The kernel takes these first when memory runs out: a browser is one session, whatever else dies is all of them.
const OOM_SCORE: &[u8] = b"500";

/// Starts a display and a host on it, and waits until nothing is left of either.
pub fn keep(arguments: &Arguments) -> Result<ExitCode, String> {
    die_with_parent()?;
    adopt_orphans()?;
    step_back();
    if arguments.confined {
        way_out::open(&arguments.data_dir).map_err(|error| format!("no way out: {error}"))?;
    }
    let display = Display::start(&arguments.data_dir).map_err(|error| format!("Xvfb did not start: {error}"))?;
    let host = start_host(&display).map_err(|error| format!("the host did not start: {error}"))?;
    // The host has the pipes. Its end is theirs, which the worker would not hear of if they were here too.
    let_go_of_pipes().map_err(|error| format!("standard input and output: {error}"))?;
    Ok(wait(&host, &display))
}

/// A child outlives its parent in no case: the kernel kills it with the thread that started it.
pub fn die_with_parent() -> Result<(), String> {
    let parent = parent_id();
    // SAFETY: this option takes one integer argument and touches no memory.
    let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if done != 0 {
        return Err(format!("PR_SET_PDEATHSIG: {}", io::Error::last_os_error()));
    }
    // The parent may have died before the kernel was asked.
    if parent_id() != parent {
        return Err("the parent is gone".to_owned());
    }
    Ok(())
}

fn adopt_orphans() -> Result<(), String> {
    // SAFETY: the first takes a string that lives for ever, of 15 characters at most; the second takes an integer.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)
    };
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

fn start_host(display: &Display) -> io::Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.args(env::args_os().skip(1)).arg("--driven");
    command.env("DISPLAY", display.name()).env("XAUTHORITY", display.authority());
    command.spawn()
}

fn let_go_of_pipes() -> io::Result<()> {
    let nothing = fs::File::options().read(true).write(true).open("/dev/null")?;
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
                let _ = io::stderr().write_all(b"kitfleet-host: Xvfb ended\n");
                return ExitCode::FAILURE;
            }
            Ok(_) => {}
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return ended,
        }
    }
}

/// A command whose process the kernel kills with this one's first thread, and that says nothing but what it is asked.
pub fn servant(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // SAFETY: between fork and exec it makes one system call, which allocates nothing.
    unsafe {
        command.pre_exec(|| {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        });
    }
    command
}

/// Bytes that nobody guesses.
pub fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
