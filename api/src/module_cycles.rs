//! Tests of the dependencies between the modules of this crate.
//!
//! A module here is a file directly in `http` or in `routes`, with the folder of its name, or a file beside those two. Parts of
//! one module may use each other; dependencies between two modules go in one direction. Tests of a module may use all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type ModuleUses = BTreeMap<String, BTreeSet<String>>;

fn module_uses() -> ModuleUses {
    let mut module_uses = ModuleUses::new();
    collect_uses(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &[], &mut module_uses);
    module_uses
}

fn collect_uses(folder: &Path, module: &[&str], module_uses: &mut ModuleUses) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let module = [module, &[name.as_str()]].concat();
        if path.is_dir() {
            collect_uses(&path, &module, module_uses);
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && !matches!(name.as_str(), "lib" | "module_cycles" | "tests")
        {
            let source = fs::read_to_string(&path).expect("a source");
            let (this_module, used) = (module_of(&module), used_by(&source, &module));
            let others = used.iter().map(|path| module_of(path)).filter(|other| *other != this_module);
            module_uses.entry(this_module.clone()).or_default().extend(others);
        }
    }
}

fn module_of<S: AsRef<str>>(module: &[S]) -> String {
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

/// Modules in a cycle, and modules between two cycles.
fn find_cycles(mut module_uses: ModuleUses) -> ModuleUses {
    loop {
        let all = module_uses.clone();
        module_uses.retain(|this_module, uses| {
            let is_used = all.iter().any(|(other, uses)| other != this_module && uses.contains(this_module));
            is_used && uses.iter().any(|other| all.contains_key(other))
        });
        if module_uses.len() == all.len() {
            return module_uses;
        }
    }
}

#[test]
fn modules_do_not_depend_on_each_other_in_a_cycle() {
    let cycles = find_cycles(module_uses());
    assert!(cycles.is_empty(), "{cycles:#?}");
}

#[test]
fn shared_modules_do_not_import_routes() {
    for (this_module, uses) in module_uses() {
        let above: &[_] = match this_module.split("::").next() {
            Some("http") => &["routes", "document", "permissions", "router"],
            Some("routes") => &["document", "permissions", "router"],
            _ => &[],
        };
        let wrong = uses.iter().find(|other| other.split("::").next().is_some_and(|wing| above.contains(&wing)));
        assert_eq!(wrong, None, "{this_module} uses what is above it");
    }
}

#[test]
fn paths_in_a_source_are_found() {
    let source = "
        use crate::http::{auth::{self, Caller}, error};
        // crate::comments::do_not_count
        use super::dispatch;
        use super::super::webhooks::{events as happenings, endpoints::*,};
        fn f() -> Option<crate::document::X> { mycrate::nothing() }
        #[cfg(test)]
mod tests { use crate::router; }";
    let used: BTreeSet<_> =
        used_by(source, &["routes", "sessions", "wire"]).iter().map(|path| module_of(path)).collect();
    let expected = ["document", "http::auth", "http::error", "routes::sessions", "routes::webhooks"];
    assert_eq!(used.into_iter().collect::<Vec<_>>(), expected);
    assert!(module_uses()["routes::sessions"].contains("http::auth"), "sources are found");
}

#[test]
fn cycle_of_modules_is_found() {
    let module_uses = |edges: &[(&str, &str)]| {
        let mut module_uses = ModuleUses::new();
        for (from, to) in edges {
            module_uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            module_uses.entry((*to).to_owned()).or_default();
        }
        module_uses
    };
    assert!(find_cycles(module_uses(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let cycle = find_cycles(module_uses(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]));
    assert_eq!(cycle.into_keys().collect::<Vec<_>>(), ["b", "c"]);
}
