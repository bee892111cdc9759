//! A port on the loopback of the family's network that forwards to the guard's socket.
//!
//! WebKit supports proxies on ports only, and that network has no other interface.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use kitfleet_host_protocol::{EGRESS_PORT, EGRESS_SOCKET};

/// A forwarding thread only copies bytes.
const STACK: usize = 64 * 1024;

/// Until the process ends. Connections fail while there is no guard.
pub fn open(directory: &Path) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, EGRESS_PORT))?;
    let guard = directory.join(EGRESS_SOCKET);
    apart(move || {
        for connection in listener.incoming() {
            // The probable reason is too many open files. Other connections may close.
            if connection.and_then(|browser| relay_to_guard(browser, guard.clone())).is_err() {
                thread::sleep(Duration::from_millis(10));
            }
        }
    })
}

/// The guard limits the number of connections.
fn relay_to_guard(browser: TcpStream, guard: PathBuf) -> io::Result<()> {
    browser.set_nodelay(true)?;
    apart(move || {
        let Ok(guard) = UnixStream::connect(guard) else { return };
        let (Ok(other_browser), Ok(other_guard)) = (browser.try_clone(), guard.try_clone()) else { return };
        // An error of one side ends that direction, and soon the other.
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
