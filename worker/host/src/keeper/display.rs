//! X server of one browser.
//!
//! Each browser has its own display, because programs that share one share its clipboard, keys and pictures. A cookie protects
//! it on machines that do not confine the family. The display shows nothing: WebKit renders pictures itself, so the screen has
//! a few pixels, and the window is outside of it.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::command_with_death_signal;

/// Each pixel costs memory.
const SCREEN: &str = "16x16x24";

/// Has the cookie, below the browser's folder.
const AUTHORITY: &str = "display-authority";

/// The only kind of cookie that all clients support.
const PROTOCOL: &[u8] = b"MIT-MAGIC-COOKIE-1";

pub struct Display {
    server: Child,
    authority: PathBuf,
    stopped: Cell<bool>,
}

impl Display {
    /// The server writes its number to the pipe as soon as it listens, which the host waits for.
    pub fn start(directory: &Path) -> io::Result<(Self, PipeReader)> {
        let authority = directory.join(AUTHORITY);
        write_authority(&authority)?;
        let mut command = command_with_death_signal(Path::new("Xvfb"));
        let (number, writer) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer);
        command.args(["-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp", "-noreset", "-auth"]);
        // No client uses OpenGL or shared memory, and both need more memory than the screen.
        command.arg(&authority).args(["-extension", "GLX", "-extension", "MIT-SHM"]);
        // Returns freed memory to the system at once.
        command.env("MALLOC_ARENA_MAX", "1").env("MALLOC_MMAP_THRESHOLD_", "131072");
        Ok((Self { server: command.spawn()?, authority, stopped: Cell::new(false) }, number))
    }

    /// `XAUTHORITY`.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// SIGTERM, so that the server removes its socket and its lock.
    pub fn stop(&self) {
        self.stopped.set(true);
        if let Ok(server) = libc::pid_t::try_from(self.server.id()) {
            // SAFETY: this sends a signal and touches no memory. The server has not been reaped, so its ID has not been
            // reused.
            unsafe { libc::kill(server, libc::SIGTERM) };
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// For every display and every host, in the format of libXau: two-byte big-endian numbers, and texts after their lengths.
fn write_authority(path: &Path) -> io::Result<()> {
    const EVERY_FAMILY: u16 = 0xffff;
    let text = |bytes: &[u8]| -> io::Result<Vec<u8>> {
        let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        Ok([&length.to_be_bytes(), bytes].concat())
    };
    let mut cookie = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut cookie)?;
    let (any_address, any_number) = (text(&[])?, text(&[])?);
    let entry = [&EVERY_FAMILY.to_be_bytes()[..], &any_address, &any_number, &text(PROTOCOL)?, &text(&cookie)?];
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(&entry.concat())
}
