//! WebKit writes the files below the host's folder, beside other files that it creates again itself: caches, its list of
//! sites that require TLS, and registrations of service workers, which belong to a cache that is not kept. Files can
//! also be moved into the folder of a running host before it loads a page: WebKit opens a site's files when a page of
//! that site uses them, and their names depend only on the site.

use std::io;
use std::path::Path;

use kitfleet_host_protocol::Cookie;
use kitfleet_profiles::FOLDERS;

/// To the same file system. Fails if the target already has some.
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

pub fn of_browser(cookie: Cookie) -> kitfleet_profiles::Cookie {
    let Cookie { name, value, domain, path, expires, secure, http_only, same_site } = cookie;
    kitfleet_profiles::Cookie { name, value, domain, path, expires, secure, http_only, same_site }
}

pub fn to_browser(cookie: kitfleet_profiles::Cookie) -> Cookie {
    let kitfleet_profiles::Cookie { name, value, domain, path, expires, secure, http_only, same_site } = cookie;
    Cookie { name, value, domain, path, expires, secure, http_only, same_site }
}
