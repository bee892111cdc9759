//! Names of WebKit's files with site data:
//!
//! - `localstorage/https_example.com_0.localstorage`
//! - `databases/indexeddb/v1/https_example.com_0/…/IndexedDB.sqlite3`, in a folder that is named by the SHA-256 of the
//!   database's name. If a frame of another site owns the database, that site's folder is inside the page's folder. Blobs are
//!   in the same folder as the database.
//!
//! `SQLite` has journals beside these files. A browser receives no file with another name: WebKit or `SQLite` may use a
//! file merely because it exists, and a rollback journal, for example, names further files to remove.

use sha2::{Digest as _, Sha256};
use url::{Origin as UrlOrigin, Url};

const LOCAL: (&str, &str) = ("localstorage", ".localstorage");
const INDEXED: [&str; 3] = ["databases", "indexeddb", "v1"];
const DATABASE: &str = "IndexedDB.sqlite3";

/// Origin of a site, such as `https://example.com`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// Parses an origin in the browsers' normal form. Returns `None` for other text.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok().filter(|url| matches!(url.origin(), UrlOrigin::Tuple(..)))?;
        let host = url.host_str()?;
        let plain =
            |host: &str| host.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b".-_".contains(&c));
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let known = ["http", "https"].contains(&url.scheme())
            && address.map_or_else(|| plain(host), |address| plain(&address.replace(':', "")));
        (known && url.origin().ascii_serialization() == text).then(|| Self(text.to_owned()))
    }

    /// Scheme, host and port, separated by `_`.
    fn of_name(name: &str) -> Option<Self> {
        let (scheme, rest) = name.split_once('_')?;
        let (host, port) = rest.rsplit_once('_')?;
        let host = host.replace("%3A", ":");
        let text = if port == "0" { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{port}") };
        // Each origin has only one valid name.
        Self::parse(&text).filter(|origin| origin.name() == name)
    }

    fn name(&self) -> String {
        let (scheme, rest) = self.0.split_once("://").unwrap_or_default();
        // Without a port, the last colon may be part of an IPv6 address.
        let (host, port) = rest.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).unwrap_or((rest, "0"));
        format!("{scheme}_{}_{port}", host.replace(':', "%3A"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An origin, and for a frame of another site also the origin of the page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    pub origin: Origin,
    pub embedded_in: Option<Origin>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    LocalStorage,
    Database,
    /// Write-ahead log of a local storage or a database.
    Journal,
    /// `SQLite` recreates it.
    Shared,
    Blob,
}

/// `None` if the name is not WebKit's.
pub fn parse_path(path: &str) -> Option<(Site, Kind)> {
    match path.split('/').collect::<Vec<_>>()[..] {
        [folder, file] if folder == LOCAL.0 => {
            let (name, kind) = main_or_journal(file, Kind::LocalStorage);
            let origin = Origin::of_name(name.strip_suffix(LOCAL.1)?)?;
            Some((Site { origin, embedded_in: None }, kind))
        }
        [first, second, third, ref sites @ .., folder, file] if [first, second, third] == INDEXED => {
            let site = match *sites {
                [site] => Site { origin: Origin::of_name(site)?, embedded_in: None },
                [page, frame] => Site { origin: Origin::of_name(frame)?, embedded_in: Some(Origin::of_name(page)?) },
                _ => return None,
            };
            let hash = folder.len() == 64 && folder.bytes().all(|c| c.is_ascii_digit() || (b'A'..=b'F').contains(&c));
            let kind = match main_or_journal(file, Kind::Database) {
                (DATABASE, kind) => kind,
                _ if is_blob(file) => Kind::Blob,
                _ => return None,
            };
            hash.then_some((site, kind))
        }
        _ => None,
    }
}

pub fn is_blob(file: &str) -> bool {
    let number = file.strip_suffix(".blob").unwrap_or_default();
    (1..=19).contains(&number.len()) && number.bytes().all(|c| c.is_ascii_digit())
}

fn main_or_journal(file: &str, main: Kind) -> (&str, Kind) {
    let journal = [("-wal", Kind::Journal), ("-shm", Kind::Shared)];
    let found = journal.into_iter().find_map(|(suffix, kind)| Some((file.strip_suffix(suffix)?, kind)));
    found.unwrap_or((file, main))
}

pub fn local_storage(origin: &Origin) -> String {
    format!("{}/{}{}", LOCAL.0, origin.name(), LOCAL.1)
}

pub fn database(site: &Site, name: &str) -> String {
    let page = site.embedded_in.as_ref().map_or_else(String::new, |page| format!("{}/", page.name()));
    let hash = Sha256::digest(name).iter().fold(String::new(), |hash, byte| format!("{hash}{byte:02X}"));
    format!("{}/{page}{}/{hash}/{DATABASE}", INDEXED.join("/"), site.origin.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_webkit() {
        let origin = |text| Origin::parse(text).expect("an origin");
        for (text, name) in [
            ("https://shop.example", "https_shop.example_0"),
            ("http://127.0.0.1:8080", "http_127.0.0.1_8080"),
            ("http://[::1]:8765", "http_[%3A%3A1]_8765"),
            ("https://[2001:db8::1]", "https_[2001%3Adb8%3A%3A1]_0"),
            ("https://a_b.example", "https_a_b.example_0"),
        ] {
            assert_eq!(origin(text).name(), name);
            assert_eq!(Origin::of_name(name), Some(origin(text)));
        }
        let site = Site { origin: origin("https://ads.example"), embedded_in: Some(origin("https://shop.example")) };
        let other = "databases/indexeddb/v1/https_shop.example_0/https_ads.example_0/\
                     D9298A10D1B0735837DC4BD85DAC641B0F3CEF27A47E5D53A54F2F3F5B2FCFFA/IndexedDB.sqlite3";
        assert_eq!(database(&site, "other"), other);
        assert_eq!(parse_path(other), Some((site, Kind::Database)));
    }

    #[test]
    fn other_names_are_refused() {
        for bad in [
            "https://shop.example/",
            "https://Shop.example",
            "https://shop.example:443",
            "ftp://shop.example",
            "https://a@shop.example",
            "https://shop.example/../x",
            "file:///etc",
            "https://a!b.example",
            "https://",
            "null",
            "",
        ] {
            assert_eq!(Origin::parse(bad), None, "{bad}");
        }
        let hash = "A".repeat(64);
        for good in [
            "localstorage/https_a.example_0.localstorage",
            "localstorage/https_a.example_0.localstorage-wal",
            &format!("databases/indexeddb/v1/https_a.example_0/{hash}/IndexedDB.sqlite3-shm"),
            &format!("databases/indexeddb/v1/https_a.example_0/{hash}/12.blob"),
        ] {
            assert!(parse_path(good).is_some(), "{good}");
        }
        for bad in [
            "localstorage/https_a.example_0.localstorage-journal",
            "localstorage/https_a.example_443.localstorage",
            "localstorage/https_a.example_00.localstorage",
            "localstorage/https_..%2F_0.localstorage",
            "localstorage/salt",
            "localstorage/file__0.localstorage",
            "databases/Databases.db",
            "databases/indexeddb/v1/https_a.example_0/1/IndexedDB.sqlite3",
            &format!("databases/indexeddb/v0/https_a.example_0/{hash}/IndexedDB.sqlite3"),
            &format!("databases/indexeddb/v1/https_a.example_0/{}/IndexedDB.sqlite3", hash.to_lowercase()),
            &format!("databases/indexeddb/v1/https_a.example_0/{hash}/IndexedDB.sqlite3-journal"),
            &format!("databases/indexeddb/v1/https_a.example_0/{hash}/.blob"),
            &format!("databases/indexeddb/v1/https_a.example_0/{hash}/a.blob"),
            &format!("databases/indexeddb/v1/https_a.example_0/{hash}/x"),
            &format!("databases/indexeddb/v1/a/b/c/{hash}/IndexedDB.sqlite3"),
            &format!("databases/indexeddb/v1/{hash}/IndexedDB.sqlite3"),
        ] {
            assert_eq!(parse_path(bad), None, "{bad}");
        }
    }
}
