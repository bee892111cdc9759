//! Rules that hold for all areas, checked on the source code and the migrations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::*;
use crate::area::Bound;
use crate::audit::changes::{COUNTED, NOT_COUNTED};
use crate::emails::Template;

/// Modules that write a table of another area. One exception, for speed: `sessions::intents::end` ends an operation,
/// checks its fence and counts its usage in one statement. Every operation holds its session until that statement ends,
/// so a second statement would delay all of them. Sessions write other areas' tables through database functions of
/// those areas.
const ALLOWED_FOREIGN_WRITES: [(&str, &str); 1] = [("sessions", "usage_counts")];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn modules() -> BTreeMap<String, String> {
    let modules = modules_in("src");
    assert!(modules.len() > 40, "{:?}", modules.keys());
    modules
}

/// Includes folders, without comments and tests.
fn modules_in(folder: &str) -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut modules = BTreeMap::<_, String>::new();
    for path in files(&root) {
        let inside = path.strip_prefix(&root).expect("a path inside").with_extension("");
        let name = inside.iter().next().and_then(|name| name.to_str()).expect("a name").to_owned();
        if path.extension().is_none_or(|extension| extension != "rs") || inside.ends_with("tests") || name == "lib" {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        modules.entry(name).or_default().extend(code.flat_map(|line| [line, "\n"]));
    }
    modules
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("an expression")
}

#[test]
fn modules_have_no_dependency_cycles() {
    for modules in [modules(), modules_in("../types/src")] {
        assert_no_cycles(&modules);
    }
}

fn assert_no_cycles(modules: &BTreeMap<String, String>) {
    let (path, name) = (regex(r"\bcrate::(?:\{([^;]*)\};|(\w+))"), regex(r"\w+"));
    let mut left = BTreeMap::new();
    for (module, code) in modules {
        let paths = path.captures_iter(code).filter_map(|found| found.get(1).or(found.get(2)));
        let named = paths.flat_map(|found| name.find_iter(found.as_str())).map(|name| name.as_str());
        let needed = named.filter(|name| name != module && modules.contains_key(*name));
        left.insert(module.as_str(), needed.collect::<BTreeSet<_>>());
    }
    let free = |left: &BTreeMap<_, BTreeSet<&str>>| {
        let mut modules = left.iter();
        modules.find(|(_, needed)| !needed.iter().any(|needed| left.contains_key(needed))).map(|(module, _)| *module)
    };
    while let Some(module) = free(&left) {
        left.remove(module);
    }
    assert!(left.is_empty(), "dependency cycle among or below: {left:#?}");
}

fn owner(table: &str) -> &'static str {
    let mut owners = ALL.iter().filter(|area| area.tables().any(|own| own == table)).map(|area| area.name);
    let owner = owners.next().unwrap_or_else(|| panic!("no area owns the table {table}"));
    assert_eq!(owners.next(), None, "a second area owns the table {table}");
    owner
}

#[test]
fn only_the_owner_area_writes_a_table() {
    let write = regex(r"\b(?:(?:insert\s+into|delete\s+from)\s+(\w+)|update\s+(\w+)(?:\s+\w+)?\s+set\s)");
    let mut foreign_writes = BTreeSet::new();
    for (module, code) in modules() {
        for table in write.captures_iter(&code).filter_map(|found| found.get(1).or(found.get(2))) {
            if owner(table.as_str()) != module {
                foreign_writes.insert((module.clone(), table.as_str().to_owned()));
            }
        }
    }
    assert_eq!(
        foreign_writes,
        ALLOWED_FOREIGN_WRITES.map(|(module, table)| (module.to_owned(), table.to_owned())).into()
    );
}

fn migrations() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut paths = files(&folder);
    paths.sort();
    let texts = paths.into_iter().map(|path| fs::read_to_string(path).expect("a migration"));
    texts.flat_map(|text| text.split(';').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Contract: retention 16. A deletion in batches skips rows locked by another transaction, so that it waits for none.
#[test]
fn batch_deletions_skip_locked_rows() {
    let batch = regex(r#""[^"]*\bdelete\s+from\s[^"]*\blimit\s+\$[^"]*""#);
    let mut batches = 0;
    for (module, code) in modules() {
        for batch in batch.find_iter(&code) {
            assert!(batch.as_str().contains("for update"), "{module}: {}", batch.as_str());
            assert!(batch.as_str().contains("skip locked"), "{module}: {}", batch.as_str());
            batches += 1;
        }
    }
    assert!(batches > 25, "only {batches} batches were found");
}

#[test]
fn every_table_belongs_to_an_area() {
    let create = regex(r"(?m)^create table (\w+)");
    let made: BTreeSet<_> = migrations().iter().filter_map(|text| Some(create.captures(text)?[1].to_owned())).collect();
    assert!(made.iter().all(|table| !owner(table).is_empty()));
    let owned: BTreeSet<_> = ALL.iter().flat_map(Area::tables).map(str::to_owned).collect();
    assert_eq!(made, owned);
}

/// Contract: limits 8. Each table has a bound or a term, and `docs/quotas.md` lists the same.
#[test]
fn every_table_has_a_bound_or_a_term() {
    let page = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        fs::read_to_string(path).expect("a page")
    };
    let (quotas, settings, setting) = (page("quotas.md"), page("configuration.md"), regex(r"`([a-z_]+\.[a-z_]+)`"));
    let mut declared = Vec::new();
    for area in &ALL {
        let bounded: BTreeSet<_> = area.bounds.iter().map(|(table, _)| *table).collect();
        assert_eq!(bounded, area.tables().collect(), "the bounds of {}", area.name);
        for (table, bound) in area.bounds {
            let (kind, text) = match bound {
                Bound::Account(text) => ("account", text),
                Bound::Term(text) => ("term", text),
                Bound::Operator(text) => ("operator", text),
            };
            let is_purged = area.purges.iter().any(|purge| purge.table == *table);
            assert!(kind != "term" || is_purged, "{table} has a term, and is not purged");
            for setting in setting.captures_iter(text) {
                assert!(settings.contains(&format!("| `{}", &setting[1])), "no setting {}", &setting[1]);
            }
            declared.push(format!("| `{table}` | {kind} | {text} |"));
        }
    }
    let listed: Vec<_> = quotas.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(listed, declared);
}

#[test]
fn areas_with_references_come_before_referenced_areas() {
    let place = |table: &str| ALL.iter().position(|area| area.name == owner(table));
    let (table, referred) = (regex(r"(?m)^(?:create|alter) table (\w+)"), regex(r"\breferences (\w+)"));
    for statement in migrations() {
        let Some(table) = table.captures(&statement) else { continue };
        for referred in referred.captures_iter(&statement) {
            assert!(place(&table[1]) <= place(&referred[1]), "{} refers to {}", &table[1], &referred[1]);
        }
    }
}

#[test]
fn each_area_writes_exactly_its_declared_actions() {
    let (modules, action) = (modules(), regex(r#""([a-z_]+(?:\.[a-z_]+)+)""#));
    for (module, code) in &modules {
        for name in action.captures_iter(code) {
            // An event can have the name of an action, and the module `events` names all events. The module `audit`
            // lists which actions count.
            let lists = ["events", "audit"];
            let declaring =
                ALL.iter().find(|area| area.actions.contains(&&name[1]) && !lists.contains(&module.as_str()));
            assert!(declaring.is_none_or(|area| area.name == module), "{module} writes {}", &name[1]);
            let written = code.contains(&format!("action: {}", &name[0]));
            assert!(declaring.is_some() || !written, "no area declares {}", &name[1]);
        }
    }
    for area in &ALL {
        for action in area.actions {
            let is_written = modules[area.name].matches(&format!("\"{action}\"")).count() > 1;
            assert!(is_written, "{} declares {action} and does not write it", area.name);
        }
    }
}

/// Contract: audit-log 20, 21. Each action is listed as counted or as not counted.
#[test]
fn each_action_is_listed_as_counted_or_not_counted() {
    let sorted = |names: &mut dyn Iterator<Item = &'static str>| {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    };
    let classified = sorted(&mut COUNTED.iter().chain(NOT_COUNTED.iter().map(|(action, _)| action)).copied());
    assert_eq!(classified, sorted(&mut actions()));
}

#[test]
fn every_mail_belongs_to_an_area() {
    let sorted = |names: &mut dyn Iterator<Item = &'static str>| {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    };
    let declared = sorted(&mut ALL.iter().flat_map(|area| area.mails).copied());
    assert_eq!(declared, sorted(&mut Template::ALL.iter().map(|template| template.name())));
}

/// Contract: command-line 15. Every purpose of the vault belongs to a column that an area declares, in one of its own
/// tables.
#[test]
fn every_purpose_of_the_vault_has_declared_columns() {
    let (purpose, literal) = (regex(r#"\bconst (?:KEY_)?PURPOSE: &str = "([^"]+)";"#), regex(r#"\.seal\(\s*""#));
    let modules = modules();
    let used: BTreeSet<_> =
        modules.values().flat_map(|code| purpose.captures_iter(code)).map(|found| found[1].to_owned()).collect();
    for (module, code) in &modules {
        assert!(!literal.is_match(code), "{module} seals for a purpose without a name");
    }
    // The probe of the key, and tickets for files, which are not stored.
    let unstored = ["probe", "file_access"].map(str::to_owned);
    let declared: BTreeSet<_> = sealed().map(|sealed| sealed.purpose.to_owned()).chain(unstored).collect();
    assert_eq!(used, declared);
    for area in &ALL {
        for sealed in area.sealed {
            assert_eq!(
                owner(sealed.table),
                area.name,
                "{} belongs to an area other than the one that declares it",
                sealed.table
            );
        }
    }
    let kinds: BTreeSet<_> = sealed().map(|sealed| sealed.kind).collect();
    assert_eq!(kinds.len(), sealed().count(), "two kinds have the same name");
}
