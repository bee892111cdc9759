//! A browser's own X server.
//!
//! Whoever shares a display shares its clipboard, its keys and its pictures, so each browser has one, which a cookie
//! guards where the machine does not confine the family. Nothing is to be seen on it: WebKit paints its pictures by
//! itself, so that the screen is a few pixels and the window lies beside it.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::servant;

/// Each pixel costs memory.
const SCREEN: &str = "16x16x24";

/// Where a program on the display finds the cookie, below the browser's folder.
const AUTHORITY: &str = "display-authority";

/// The only kind of cookie that everybody knows.
const PROTOCOL: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// A running X server.
pub struct Display {
    server: Child,
    authority: PathBuf,
    stopped: Cell<bool>,
}

impl Display {
    /// Starts the server. It says its number as soon as it listens, which whoever draws there waits for.
    pub fn start(directory: &Path) -> io::Result<(Self, PipeReader)> {
        let authority = directory.join(AUTHORITY);
        write_authority(&authority)?;
        let mut command = servant(Path::new("Xvfb"));
        let (number, told) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(told);
        command.args(["-displayfd", "1", "-screen", "0", SCREEN, "-nolisten", "tcp", "-noreset", "-auth"]);
        // Nothing draws with OpenGL or through shared memory, and both cost more of it than the screen.
        command.arg(&authority).args(["-extension", "GLX", "-extension", "MIT-SHM"]);
        // What was freed goes back at once instead of staying in its heap.
        command.env("MALLOC_ARENA_MAX", "1").env("MALLOC_MMAP_THRESHOLD_", "131072");
        Ok((Self { server: command.spawn()?, authority, stopped: Cell::new(false) }, number))
    }

    /// What `XAUTHORITY` has to be.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// The server's process.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Asks the server to end, kindly, so that it takes its socket and its lock away.
    pub fn stop(&self) {
        self.stopped.set(true);
        if let Ok(server) = libc::pid_t::try_from(self.server.id()) {
            // SAFETY: this sends a signal and touches no memory. Nobody has waited for the server, so the id is its own.
            unsafe { libc::kill(server, libc::SIGTERM) };
        }
    }

    /// Whether it was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.get()
    }
}

/// Writes a fresh cookie for every display and every host, in the format of libXau: numbers of two bytes, the highest
/// first, and texts after their lengths.
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
