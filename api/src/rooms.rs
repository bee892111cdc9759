//! Modules of this crate that may use each other.
//!
//! A room is a file directly in `http` or in `routes`, with the folder of its name, or a file beside those two. Inside a room
//! all modules may use each other; between two rooms, uses go in one direction. Tests are no part of a room: they may use all
//! of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Rooms = BTreeMap<String, BTreeSet<String>>;

fn rooms() -> Rooms {
    let mut rooms = Rooms::new();
    look(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &[], &mut rooms);
    rooms
}

fn look(folder: &Path, module: &[&str], rooms: &mut Rooms) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let module = [module, &[name.as_str()]].concat();
        if path.is_dir() {
            look(&path, &module, rooms);
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && !matches!(name.as_str(), "lib" | "rooms" | "tests")
        {
            let source = fs::read_to_string(&path).expect("a source");
            let (room, used) = (room_of(&module), used_by(&source, &module));
            let others = used.iter().map(|path| room_of(path)).filter(|other| *other != room);
            rooms.entry(room.clone()).or_default().extend(others);
        }
    }
}

fn room_of<S: AsRef<str>>(module: &[S]) -> String {
    let depth = if matches!(module[0].as_ref(), "http" | "routes") { 2 } else { 1 };
    module.iter().take(depth).map(AsRef::as_ref).collect::<Vec<_>>().join("::")
}

/// Paths from the crate's root that the source of a module names.
fn used_by(source: &str, module: &[&str]) -> Vec<Vec<String>> {
    let (source, _) = source.split_once("#[cfg(test)]\nmod ").unwrap_or((source, ""));
    let code: Vec<_> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut used = Vec::new();
    for (beginning, root) in [("crate::", &module[..0]), ("super::", &module[..module.len() - 1])] {
        for (at, _) in code.match_indices(beginning) {
            // `self::super::` and `super::super::` begin with their first word.
            if code[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':' | '$')) {
                continue;
            }
            let root = root.iter().map(|name| (*name).to_owned()).collect();
            follow(&code[at + beginning.len()..], root, &mut used);
        }
    }
    used.retain(|path| !path.is_empty());
    used
}

/// Notes the paths that begin here. Returns the rest of the text.
fn follow<'a>(text: &'a str, mut path: Vec<String>, used: &mut Vec<Vec<String>>) -> &'a str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if rest.is_empty() || rest.starts_with('}') {
                return rest.strip_prefix('}').unwrap_or_default();
            }
            rest = follow(rest, path.clone(), used);
            // A local name has no effect.
            rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
    }
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "super" => {
            path.pop();
        }
        // A module itself, or all of its items.
        "self" | "" => {}
        name => path.push(name.to_owned()),
    }
    if let Some(deeper) = rest.strip_prefix("::") {
        return follow(deeper, path, used);
    }
    used.push(path);
    rest
}

/// Rooms that use each other, or stand between such.
fn in_circles(mut rooms: Rooms) -> Rooms {
    loop {
        let all = rooms.clone();
        rooms.retain(|room, uses| {
            let is_used = all.iter().any(|(other, uses)| other != room && uses.contains(room));
            is_used && uses.iter().any(|other| all.contains_key(other))
        });
        if rooms.len() == all.len() {
            return rooms;
        }
    }
}

#[test]
fn no_two_rooms_use_each_other() {
    let circles = in_circles(rooms());
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn what_every_route_uses_knows_no_route() {
    for (room, uses) in rooms() {
        let above: &[_] = match room.split("::").next() {
            Some("http") => &["routes", "document", "permissions", "router"],
            Some("routes") => &["document", "permissions", "router"],
            _ => &[],
        };
        let wrong = uses.iter().find(|other| other.split("::").next().is_some_and(|wing| above.contains(&wing)));
        assert_eq!(wrong, None, "{room} uses what is above it");
    }
}

#[test]
fn a_source_says_what_it_uses() {
    let source = "
        use crate::http::{auth::{self, Caller}, error};
        // crate::comments::do_not_count
        use super::dispatch;
        use super::super::webhooks::{events as happenings, endpoints::*,};
        fn f() -> Option<crate::document::X> { mycrate::nothing() }
        #[cfg(test)]
mod tests { use crate::router; }";
    let used: BTreeSet<_> = used_by(source, &["routes", "sessions", "wire"]).iter().map(|path| room_of(path)).collect();
    let expected = ["document", "http::auth", "http::error", "routes::sessions", "routes::webhooks"];
    assert_eq!(used.into_iter().collect::<Vec<_>>(), expected);
    assert!(rooms()["routes::sessions"].contains("http::auth"), "sources are found");
}

#[test]
fn a_circle_is_found() {
    let rooms = |edges: &[(&str, &str)]| {
        let mut rooms = Rooms::new();
        for (from, to) in edges {
            rooms.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            rooms.entry((*to).to_owned()).or_default();
        }
        rooms
    };
    assert!(in_circles(rooms(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let circle = in_circles(rooms(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(circle.into_keys().collect::<Vec<_>>(), ["b", "c"]);
}
