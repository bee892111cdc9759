//! The one way out of a confined family: a port on the loopback of its own network, behind which is the guard's socket.
//!
//! WebKit knows proxies on ports only, and that network has none but its own loopback.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use kitfleet_host_protocol::{EGRESS_PORT, EGRESS_SOCKET};

/// A thread here copies bytes and calls nothing deep.
const STACK: usize = 64 * 1024;

/// Listens until the process ends. While there is no guard, everybody is turned away.
pub fn open(directory: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, EGRESS_PORT))?;
    let guard = directory.join(EGRESS_SOCKET);
    apart(move || {
        for connection in listener.incoming() {
            // Too many open files, most likely: others may close.
            if connection.and_then(|browser| lead(browser, guard.clone())).is_err() {
                thread::sleep(Duration::from_millis(10));
            }
        }
    })
}

/// Leads one connection to the guard, who bounds how many there are.
fn lead(browser: TcpStream, guard: PathBuf) -> io::Result<()> {
    browser.set_nodelay(true)?;
    apart(move || {
        let Ok(guard) = UnixStream::connect(guard) else { return };
        let (Ok(other_browser), Ok(other_guard)) = (browser.try_clone(), guard.try_clone()) else { return };
        // An error of either side ends that direction, and the other soon.
        let back = apart(move || {
            let _ = io::copy(&mut &other_guard, &mut &other_browser);
            let _ = other_browser.shutdown(Shutdown::Write);
        });
        if back.is_ok() {
            let _ = io::copy(&mut &browser, &mut &guard);
            let _ = guard.shutdown(Shutdown::Write);
        }
    })
}

fn apart(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().stack_size(STACK).spawn(work).map(drop)
}
