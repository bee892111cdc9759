//! Archives: zstd-compressed tar files of the cookies and the site files. The first entry is the format version.
//!
//! Archives without a version were written before files were validated. No browser receives their files: [`unpack`]
//! skips them, and [`unpack_for_reading`] reads their values.
//!
//! Even authenticated archives are not trusted: a path outside the folder, an entry that is not a plain file, and more
//! data than a store may contain are rejected.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tar::{Archive, Builder, EntryType, Header};

use crate::cookies::{self, MAX_COOKIES};
use crate::files::{Count, Entry, MAX_BYTES, MAX_FILES, MAX_PATH, RelativePath};
use crate::gate::Gate;
use crate::webkit::names;
use crate::{Cookie, SaveError};

const FORMAT: &str = "format";
/// Files were written by WebKit on a worker, or built from values.
const VERSION: &[u8] = b"2";
const COOKIES: &str = "cookies.json";
const FILES: &str = "files/";
/// Escaping at most doubles a character, and the other members of a cookie are short.
const MAX_COOKIE_BYTES: u64 = 2 * cookies::MAX_BYTES as u64 + 256 * MAX_COOKIES as u64;
/// Uncompressed, with headers for each file.
const MAX_ARCHIVE_BYTES: u64 = MAX_BYTES + MAX_COOKIE_BYTES + (2 + MAX_FILES as u64) * 3 * 1024;
const AT_ONCE: usize = 64 * 1024;
/// Fastest of the standard levels, because ending a session should not take longer than starting one.
const LEVEL: i32 = 1;

pub fn serialize(cookies: &[Cookie]) -> Result<Vec<u8>, SaveError> {
    if cookies.len() > MAX_COOKIES || cookies.iter().map(Cookie::bytes).sum::<usize>() > cookies::MAX_BYTES {
        let bytes = cookies::MAX_BYTES;
        return Err(SaveError::TooLarge(format!("more than {MAX_COOKIES} cookies, or than {bytes} bytes of them")));
    }
    serde_json::to_vec(cookies).map_err(|error| SaveError::Serialize(error.into()))
}

pub fn pack(cookies: &[u8], files: &[Entry], to: &mut dyn Write) -> io::Result<()> {
    let mut archive = Builder::new(zstd::Encoder::new(to, LEVEL)?);
    archive.append_data(&mut header(VERSION.len() as u64), FORMAT, VERSION)?;
    archive.append_data(&mut header(cookies.len() as u64), COOKIES, cookies)?;
    for file in files {
        let mut content = ExactLength { from: file.open()?, left: file.size };
        archive.append_data(&mut header(file.size), format!("{FILES}{}", file.path.as_str()), &mut content)?;
    }
    archive.into_inner()?.finish()?.flush()
}

/// Creates a header without an owner and a time of the machine.
fn header(size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(size);
    header
}

/// Fails if a file became shorter after it was listed, which would corrupt the archive.
struct ExactLength<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for ExactLength<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        if read == 0 && self.left > 0 && !into.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

enum Item<'a> {
    /// The archive has a version. Comes first.
    Checked,
    /// Come before the files.
    Cookies(Vec<Cookie>),
    File {
        path: &'a RelativePath,
        content: &'a mut dyn Read,
    },
}

fn read(from: &mut dyn Read, show: &mut dyn FnMut(Item<'_>) -> io::Result<()>) -> io::Result<()> {
    let clear = zstd::Decoder::new(from)?;
    let mut archive = Archive::new(LimitedReader { from: clear, left: MAX_ARCHIVE_BYTES });
    let mut count = Count::default();
    let mut long_name = None;
    // Raw entries, because the crate reads long names without a limit.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() {
            let mut name = Vec::new();
            entry.by_ref().take((FILES.len() + MAX_PATH + 2) as u64).read_to_end(&mut name)?;
            name.pop_if(|last| *last == 0);
            long_name = Some(name);
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let name = String::from_utf8(name).map_err(|_| refuse("a name that is not UTF-8"))?;
        if kind != EntryType::Regular {
            return Err(refuse("an entry that is not a file"));
        }
        if name == FORMAT {
            let mut version = Vec::new();
            entry.take(VERSION.len() as u64 + 1).read_to_end(&mut version)?;
            if version != VERSION {
                return Err(refuse("a format of a later version"));
            }
            show(Item::Checked)?;
            continue;
        }
        if name == COOKIES {
            let cookies = serde_json::from_reader(io::BufReader::new(entry.take(MAX_COOKIE_BYTES)))?;
            show(Item::Cookies(cookies))?;
            continue;
        }
        let path = name
            .strip_prefix(FILES)
            .and_then(RelativePath::parse)
            .ok_or_else(|| refuse("a path outside the folder"))?;
        if !count.add(&path) {
            return Err(refuse("too many files"));
        }
        show(Item::File { path: &path, content: &mut entry })?;
    }
    // Reads to the end of the encrypted stream, so that truncation is detected.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}

/// Replaces existing files. `None`, without writing anything, for an archive whose files were never validated. Writes
/// nothing after the gate is closed.
pub fn unpack(from: &mut dyn Read, folder: &Path, gate: &Gate) -> io::Result<Option<Vec<Cookie>>> {
    let (mut cookies, mut checked) = (Vec::new(), false);
    read(from, &mut |item| {
        match item {
            Item::Checked => checked = true,
            Item::Cookies(all) => cookies = all,
            Item::File { .. } if !checked => {}
            Item::File { path, .. } if names::parse_path(path.as_str()).is_none() => {
                return Err(refuse("a file that browsers do not write"));
            }
            Item::File { path, content } => put(folder, path, content, gate)?,
        }
        Ok(())
    })?;
    Ok(checked.then_some(cookies))
}

/// An archive of any version, into a folder that no browser uses. Files whose names are not WebKit's are skipped.
pub fn unpack_for_reading(from: &mut dyn Read, folder: &Path) -> io::Result<Vec<Cookie>> {
    let (mut cookies, gate) = (Vec::new(), Gate::default());
    read(from, &mut |item| {
        match item {
            Item::Cookies(all) => cookies = all,
            Item::File { path, content } if names::parse_path(path.as_str()).is_some() => {
                put(folder, path, content, &gate)?;
            }
            Item::Checked | Item::File { .. } => {}
        }
        Ok(())
    })?;
    Ok(cookies)
}

fn put(folder: &Path, path: &RelativePath, content: &mut dyn Read, gate: &Gate) -> io::Result<()> {
    let path = folder.join(path.as_str());
    let file = gate.pass(|| {
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
    })?;
    let mut file = BufWriter::with_capacity(AT_ONCE, Gated { file, gate });
    io::copy(content, &mut file)?;
    file.flush()
}

struct Gated<'a> {
    file: File,
    gate: &'a Gate,
}

impl Write for Gated<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.gate.pass(|| self.file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct LimitedReader<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| refuse("more data than a store may contain"))?;
        Ok(read)
    }
}

fn refuse(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the archive contains {what}"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::files;

    const LOCAL: &str = "localstorage/https_a.example_0.localstorage";

    fn deep() -> String {
        format!("databases/indexeddb/v1/https_{}.example_0/{}/1.blob", "x".repeat(60), "A".repeat(64))
    }

    fn packed() -> (tempfile::TempDir, Vec<u8>) {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, content) in [(LOCAL.to_owned(), vec![7; 100_000]), (deep(), b"deep".to_vec())] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        let mut archive = Vec::new();
        let cookies = serialize(&[Cookie::sample("sid")]).expect("cookies");
        pack(&cookies, &files::list(folder.path()).expect("a list"), &mut archive).expect("an archive");
        (folder, archive)
    }

    #[test]
    fn packed_archive_unpacks() {
        let (folder, archive) = packed();
        let into = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(into.path().join("localstorage")).expect("a folder");
        fs::write(into.path().join(LOCAL), "of a fresh browser").expect("a file");
        let cookies = unpack(&mut archive.as_slice(), into.path(), &Gate::default()).expect("an archive");
        assert_eq!(cookies.as_deref(), Some(&[Cookie::sample("sid")][..]));
        let all = |folder: &Path| {
            let entries = files::list(folder).expect("a list");
            let read =
                |entry: &Entry| (entry.path.clone(), io::read_to_string(entry.open().expect("a file")).expect("text"));
            entries.iter().map(read).collect::<Vec<_>>()
        };
        assert_eq!(all(into.path()), all(folder.path()));
    }

    #[test]
    fn too_many_or_too_large_cookies_are_refused() {
        let cookie = |bytes: usize| Cookie { value: "\"".repeat(bytes), ..Cookie::sample("sid") };
        let refused = |cookies: &[Cookie]| matches!(serialize(cookies), Err(SaveError::TooLarge(_)));
        assert!(!refused(&vec![cookie(1); MAX_COOKIES]));
        assert!(refused(&vec![cookie(1); MAX_COOKIES + 1]));
        assert!(refused(&vec![cookie(4_000); MAX_COOKIES / 2]));
        let max = serialize(&vec![cookie(1_600); MAX_COOKIES]).expect("cookies");
        assert!(max.len() as u64 <= MAX_COOKIE_BYTES);
    }

    #[test]
    fn truncated_archive_is_refused() {
        let (_folder, archive) = packed();
        let into = tempfile::tempdir().expect("a folder");
        for length in [0, 10, archive.len() / 2, archive.len() - 1] {
            assert!(unpack(&mut &archive[..length], into.path(), &Gate::default()).is_err(), "{length}");
        }
    }

    #[test]
    fn nothing_is_written_behind_a_closed_gate() {
        let into = tempfile::tempdir().expect("a folder");
        let gate = Gate::default();
        let (_folder, archive) = packed();
        drop(gate.close_when_dropped());
        assert!(unpack(&mut archive.as_slice(), into.path(), &gate).is_err());
        assert_eq!(fs::read_dir(into.path()).expect("a folder").count(), 0);
    }

    fn with(name: &str, kind: EntryType, content: impl Read, size: u64) -> Vec<u8> {
        let mut archive = Builder::new(zstd::Encoder::new(Vec::new(), LEVEL).expect("an encoder"));
        archive.append_data(&mut super::header(1), FORMAT, VERSION).expect("an entry");
        let mut header = header(size);
        header.set_entry_type(kind);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        if kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").expect("a name");
            header.set_cksum();
        }
        archive.append(&header, content).expect("an entry");
        archive.into_inner().expect("an archive").finish().expect("an archive")
    }

    #[test]
    fn entries_that_browsers_do_not_write_are_refused() {
        let outside = tempfile::tempdir().expect("a folder");
        let into = outside.path().join("into");
        fs::create_dir(&into).expect("a folder");
        let absolute = format!("files/{}", outside.path().join("absolute").display());
        let refused = |mut archive: &[u8]| {
            unpack(&mut archive, &into, &Gate::default()).is_err_and(|error| error.kind() == io::ErrorKind::InvalidData)
        };
        assert!(!refused(&with(&format!("files/{LOCAL}"), EntryType::Regular, &b"x"[..], 1)));
        for name in [
            "files/databases/x",
            "files/localstorage/https_a.example_0.localstorage-journal",
            "files/../up",
            "files/a/../../up",
            "files/",
            "files//etc/x",
            "/etc/x",
            "other",
            &absolute,
        ] {
            assert!(refused(&with(name, EntryType::Regular, &b"x"[..], 1)), "{name}");
        }
        let kinds = [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Char,
            EntryType::Block,
            EntryType::Fifo,
            EntryType::Directory,
            EntryType::GNUSparse,
            EntryType::XHeader,
            EntryType::GNULongLink,
        ];
        for kind in kinds {
            assert!(refused(&with("files/databases/y", kind, io::empty(), 0)), "{kind:?}");
        }
        let found: Vec<PathBuf> = fs::read_dir(outside.path()).expect("a folder").flatten().map(|e| e.path()).collect();
        assert_eq!(found, std::slice::from_ref(&into));
        assert!(!into.join("databases/y").exists());
    }

    /// Files from a document that an earlier version imported may contain anything.
    #[test]
    fn files_that_were_never_validated_reach_no_browser() {
        let mut archive = Builder::new(zstd::Encoder::new(Vec::new(), LEVEL).expect("an encoder"));
        let cookies = serialize(&[Cookie::sample("sid")]).expect("cookies");
        archive.append_data(&mut header(cookies.len() as u64), COOKIES, &cookies[..]).expect("an entry");
        archive.append_data(&mut header(1), format!("{FILES}{LOCAL}"), &b"x"[..]).expect("an entry");
        archive.append_data(&mut header(1), format!("{FILES}databases/evil"), &b"x"[..]).expect("an entry");
        let archive = archive.into_inner().expect("an archive").finish().expect("an archive");
        let (into, aside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let unpacked = unpack(&mut archive.as_slice(), into.path(), &Gate::default()).expect("an archive");
        assert!(unpacked.is_none() && fs::read_dir(into.path()).expect("a folder").next().is_none());
        let cookies = unpack_for_reading(&mut archive.as_slice(), aside.path()).expect("an archive");
        assert_eq!(cookies, [Cookie::sample("sid")]);
        assert!(aside.path().join(LOCAL).exists() && !aside.path().join("databases").exists());
    }

    #[test]
    fn archive_that_expands_too_much_is_refused() {
        let bomb = with(
            &format!("files/{LOCAL}"),
            EntryType::Regular,
            io::repeat(0).take(MAX_ARCHIVE_BYTES),
            MAX_ARCHIVE_BYTES,
        );
        assert!(bomb.len() < 1024 * 1024);
        let mut given = 0;
        let read = read(&mut bomb.as_slice(), &mut |item| match item {
            Item::File { content, .. } => io::copy(content, &mut io::sink()).map(|bytes| given += bytes),
            Item::Checked | Item::Cookies(_) => Ok(()),
        });
        assert!(read.is_err_and(|error| error.to_string().contains("more data than a store may contain")));
        assert!(given <= MAX_ARCHIVE_BYTES);

        // A name that would fill the memory.
        let long = with("././@LongLink", EntryType::GNULongName, io::repeat(b'a').take(50_000_000), 50_000_000);
        assert!(super::read(&mut long.as_slice(), &mut |_| Ok(())).is_ok());
    }
}
