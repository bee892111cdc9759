//! What holds of all areas. The sources tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::*;
use crate::area::Bound;
use crate::audit::changes::{COUNTED, NOT_COUNTED};
use crate::emails::Template;
use crate::events::EventType;

/// Who writes into another area's table, and which. There is one reason: an operation's end is one statement
/// (`sessions::intents::end`), its fence and what it counts. Each statement more would be one that every operation waits for, while
/// it holds its session. What else sessions write into other areas' tables they write by functions of those areas, which the
/// migrations have.
const TOGETHER: [(&str, &str); 1] = [("sessions", "usage_counts")];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The code of each module of this crate, with what lies in its folder, without comments and tests.
fn modules() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
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
    assert!(modules.len() > 40, "{:?}", modules.keys());
    modules
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("an expression")
}

#[test]
fn no_modules_need_each_other() {
    let modules = modules();
    let (path, name) = (regex(r"\bcrate::(?:\{([^;]*)\};|(\w+))"), regex(r"\w+"));
    let mut left = BTreeMap::new();
    for (module, code) in &modules {
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
    assert!(left.is_empty(), "these need each other, or need some that do: {left:#?}");
}

fn owner(table: &str) -> &'static str {
    let mut owners = ALL.iter().filter(|area| area.tables().any(|own| own == table)).map(|area| area.name);
    let owner = owners.next().unwrap_or_else(|| panic!("the table {table} is no area's"));
    assert_eq!(owners.next(), None, "another area that has the table {table}");
    owner
}

#[test]
fn each_area_alone_writes_its_tables() {
    let write = regex(r"\b(?:(?:insert\s+into|delete\s+from)\s+(\w+)|update\s+(\w+)(?:\s+\w+)?\s+set\s)");
    let mut together = BTreeSet::new();
    for (module, code) in modules() {
        for table in write.captures_iter(&code).filter_map(|found| found.get(1).or(found.get(2))) {
            if owner(table.as_str()) != module {
                together.insert((module.clone(), table.as_str().to_owned()));
            }
        }
    }
    assert_eq!(together, TOGETHER.map(|(module, table)| (module.to_owned(), table.to_owned())).into());
}

/// The statements of all migrations.
fn migrations() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut paths = files(&folder);
    paths.sort();
    let texts = paths.into_iter().map(|path| fs::read_to_string(path).expect("a migration"));
    texts.flat_map(|text| text.split(';').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Contract: retention 16. What is deleted in batches is deleted past those rows that somebody has in hand, so that nobody is waited for.
#[test]
fn a_batch_waits_for_nobody() {
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
fn every_table_is_some_areas() {
    let create = regex(r"(?m)^create table (\w+)");
    let made: BTreeSet<_> = migrations().iter().filter_map(|text| Some(create.captures(text)?[1].to_owned())).collect();
    assert!(made.iter().all(|table| !owner(table).is_empty()));
    let owned: BTreeSet<_> = ALL.iter().flat_map(Area::tables).map(str::to_owned).collect();
    assert_eq!(made, owned);
}

/// Contract: limits 8. Each table has a bound or a term, and the page of quotas has the same.
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
fn who_refers_comes_before_who_is_referred_to() {
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
fn each_area_writes_the_actions_that_it_tells() {
    let (modules, action) = (modules(), regex(r#""([a-z_]+(?:\.[a-z_]+)+)""#));
    for (module, code) in &modules {
        for name in action.captures_iter(code) {
            // An event can be called as an action is, and all events are named in one place; so is which actions are counted.
            let lists = ["events", "audit"];
            let teller = ALL.iter().find(|area| area.actions.contains(&&name[1]) && !lists.contains(&module.as_str()));
            assert!(teller.is_none_or(|area| area.name == module), "{module} writes {}", &name[1]);
            let written = code.contains(&format!("action: {}", &name[0]));
            assert!(teller.is_some() || !written, "nobody tells of {}", &name[1]);
        }
    }
    for area in &ALL {
        for action in area.actions {
            let told_and_written = modules[area.name].matches(&format!("\"{action}\"")).count() > 1;
            assert!(told_and_written, "{} tells of {action} and does not write it", area.name);
        }
    }
}

/// Contract: audit-log 20, 21. A new action says whether it is counted.
#[test]
fn each_action_is_counted_or_says_why_not() {
    let sorted = |names: &mut dyn Iterator<Item = &'static str>| {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    };
    let classified = sorted(&mut COUNTED.iter().chain(NOT_COUNTED.iter().map(|(action, _)| action)).copied());
    assert_eq!(classified, sorted(&mut actions()));
}

#[test]
fn every_event_and_every_mail_is_some_areas() {
    let sorted = |names: &mut dyn Iterator<Item = &'static str>| {
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    };
    let told = sorted(&mut ALL.iter().flat_map(|area| area.events).copied());
    assert_eq!(told, sorted(&mut EventType::NAMES.iter().copied()));
    let told = sorted(&mut ALL.iter().flat_map(|area| area.mails).copied());
    assert_eq!(told, sorted(&mut Template::ALL.iter().map(|template| template.name())));
}

/// Contract: command-line 15. Whatever is sealed for some purpose is in a column that an area declares, of a table of its own.
#[test]
fn every_purpose_of_the_vault_has_declared_columns() {
    let (purpose, literal) = (regex(r#"\bconst (?:KEY_)?PURPOSE: &str = "([^"]+)";"#), regex(r#"\.seal\(\s*""#));
    let modules = modules();
    let used: BTreeSet<_> =
        modules.values().flat_map(|code| purpose.captures_iter(code)).map(|found| found[1].to_owned()).collect();
    for (module, code) in &modules {
        assert!(!literal.is_match(code), "{module} seals for a purpose without a name");
    }
    let declared: BTreeSet<_> = sealed().map(|sealed| sealed.purpose.to_owned()).chain(["probe".to_owned()]).collect();
    assert_eq!(used, declared);
    for area in &ALL {
        for sealed in area.sealed {
            assert_eq!(owner(sealed.table), area.name, "{} is not of the area that declares it", sealed.table);
        }
    }
    let kinds: BTreeSet<_> = sealed().map(|sealed| sealed.kind).collect();
    assert_eq!(kinds.len(), sealed().count(), "two kinds have one name");
}
