//! What sites keep in a browser: cookies, which the host gives and takes, and files.
//!
//! WebKit writes the files below the host's folder, beside much that is its own and that it makes up anew: caches, its
//! list of sites to be asked over TLS only, and registrations of service workers, which belong to a cache that is not
//! kept. A running host takes files too, as long as it has not been anywhere: WebKit opens those of a site when a page of
//! it asks, and names them by the site and nothing else.

use std::io;
use std::path::Path;

use kitfleet_host_protocol::Cookie;
use kitfleet_profiles::FOLDERS;

/// Moves everything of sites to another folder of the same file system.
///
/// # Errors
/// When the file system refuses, or it has some already.
pub async fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    tokio::fs::create_dir_all(to).await?;
    for folder in FOLDERS {
        match tokio::fs::rename(from.join(folder), to.join(folder)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A cookie of a browser, to be kept.
pub fn of_browser(cookie: Cookie) -> kitfleet_profiles::Cookie {
    let Cookie { name, value, domain, path, expires, secure, http_only, same_site } = cookie;
    kitfleet_profiles::Cookie { name, value, domain, path, expires, secure, http_only, same_site }
}

/// A cookie that was kept, for a browser.
pub fn to_browser(cookie: kitfleet_profiles::Cookie) -> Cookie {
    let kitfleet_profiles::Cookie { name, value, domain, path, expires, secure, http_only, same_site } = cookie;
    Cookie { name, value, domain, path, expires, secure, http_only, same_site }
}
