//! A citation of a page outside the repository is useless to its readers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
/// Migrations must not change after publication.
const EXEMPT: [&str; 2] = ["docs/contract", "migrations"];
/// Build results and installed packages.
const NOT_OURS: [&str; 2] = ["node_modules", "target"];
const KINDS: [&str; 5] = ["rs", "md", "toml", "js", "ts"];

/// In prose. The words `the contract: …` do not start one.
static BEGINNING: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?P<the>\b[Tt]he )?\b[Cc]ontract: "));
/// In code: at the beginning of a string literal.
static BEGINNING_OF_TEXT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?P<the>\b[Tt]he )?"[c]ontract: "#));
/// Up to the end of a sentence, parenthesis, string, code span or comment.
static REFERENCES: LazyLock<Regex> = LazyLock::new(|| {
    let reference = r"[a-z][a-z-]*(?: \d+(?:(?:, | to )\d+)*)?";
    pattern(&format!(r#"^(?P<references>{reference}(?:; {reference})*)(?:[.)"`]|$)"#))
});
/// Pages outside the repository.
static FOREIGN: LazyLock<Regex> = LazyLock::new(|| {
    let patterns = [
        r#"(?:^|[^:\w])[Ii]nterface, (?:["`]|Limits|audit)"#,
        r"\b[Tt]he interface\b",
        r"_the_[i]nterface",
        r"\b[Dd]ecisions (?:D\d|page)",
        r#"(?:^|[^\w`'"-])D\d{1,2}(?:$|[^-\w`'"])"#,
        r"\b[Ii]ssue \d",
        r"\b[Dd]esign\.md",
        r"\b[Dd]esign,? section \d",
    ];
    pattern(&patterns.join("|"))
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

fn contract() -> BTreeMap<String, u32> {
    let pages = fs::read_dir(Path::new(REPOSITORY).join("docs/contract")).expect("the contract");
    let pages = pages.map(|page| page.expect("a page").path()).filter(|page| !page.ends_with("README.md"));
    pages.map(|page| (name(&page), rules(&page).len().try_into().expect("a page that can be read"))).collect()
}

fn name(page: &Path) -> String {
    page.file_stem().expect("a name").to_string_lossy().into_owned()
}

fn rules(page: &Path) -> Vec<u32> {
    let numbered = pattern(r"(?m)^(\d+)\. ");
    let text = fs::read_to_string(page).expect("a page");
    numbered.captures_iter(&text).map(|rule| rule[1].parse().expect("a number")).collect()
}

struct Passage {
    file: String,
    line: usize,
    text: String,
    is_words: bool,
}

/// Except for the exempt folders.
fn passages() -> Vec<Passage> {
    let mut files = Vec::new();
    find(Path::new(REPOSITORY), &mut files);
    files.iter().flat_map(|file| read(file)).collect()
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let exempt = EXEMPT.iter().any(|exempt| path == Path::new(REPOSITORY).join(exempt));
        if exempt || name.starts_with('.') || NOT_OURS.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            find(&path, files);
        } else if path.extension().is_some_and(|kind| KINDS.iter().any(|known| kind == *known)) {
            files.push(path);
        }
    }
}

fn read(path: &Path) -> Vec<Passage> {
    let file = path.strip_prefix(REPOSITORY).unwrap_or(path).display().to_string();
    let document = path.extension().is_some_and(|kind| kind == "md");
    let mut passages: Vec<Passage> = Vec::new();
    let mut open = false;
    for (number, line) in fs::read_to_string(path).expect("a text").lines().enumerate() {
        let trimmed = line.trim_start();
        let words = if document { Some(trimmed) } else { trimmed.strip_prefix("//").map(comment) };
        match (words, passages.last_mut()) {
            (Some(words), Some(passage)) if open && !words.is_empty() => {
                passage.text.push(' ');
                passage.text.push_str(words);
            }
            _ => passages.push(Passage {
                file: file.clone(),
                line: number + 1,
                text: words.unwrap_or(line).to_owned(),
                is_words: words.is_some(),
            }),
        }
        open = words.is_some_and(|words| !words.is_empty());
    }
    passages
}

/// After the two slashes.
fn comment(rest: &str) -> &str {
    rest.trim_start_matches(['/', '!']).trim()
}

/// Or the text of a malformed citation.
fn cited(passage: &Passage) -> Vec<Result<(String, u32), String>> {
    let beginning = if passage.is_words { &BEGINNING } else { &BEGINNING_OF_TEXT };
    let citations = beginning.captures_iter(&passage.text).filter(|found| found.name("the").is_none());
    let rest = citations.filter_map(|found| found.get(0)).map(|found| &passage.text[found.end()..]);
    rest.flat_map(|rest| match REFERENCES.captures(rest) {
        Some(found) => found["references"].split("; ").flat_map(numbers).map(Ok).collect::<Vec<_>>(),
        None => vec![Err(rest.chars().take(60).collect())],
    })
    .collect()
}

/// Such as `sessions 4, 7 to 9`. An area without a number stands for its first rule.
fn numbers(reference: &str) -> Vec<(String, u32)> {
    let (area, numbers) = reference.split_once(' ').unwrap_or((reference, "1"));
    let ranges = numbers.split(", ").map(|range| {
        let (first, last) = range.split_once(" to ").unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().expect("a number");
        number(first)..=number(last)
    });
    ranges.flatten().map(|number| (area.to_owned(), number)).collect()
}

#[test]
fn every_citation_names_an_existing_rule() {
    let contract = contract();
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for passage in passages() {
        for citation in cited(&passage) {
            match citation {
                Ok((area, rule)) if contract.get(&area).is_some_and(|rules| (1..=*rules).contains(&rule)) => {
                    seen.insert(area);
                }
                Ok((area, rule)) => wrong.push(format!("{}:{}: no rule {area} {rule}", passage.file, passage.line)),
                Err(text) => wrong.push(format!("{}:{}: no citation: {text}", passage.file, passage.line)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Every area of the contract is cited at least once.
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), contract.into_keys().collect::<Vec<_>>());
}

#[test]
fn no_citation_of_pages_outside_the_repository() {
    let foreign = passages().into_iter().filter(|passage| FOREIGN.is_match(&passage.text));
    let foreign: Vec<_> =
        foreign.map(|passage| format!("{}:{}: {}", passage.file, passage.line, passage.text)).collect();
    assert!(foreign.is_empty(), "{}", foreign.join("\n"));
}

/// Markdown numbers a list from its first item and ignores the other numbers.
#[test]
fn rules_are_numbered_in_order() {
    let pages = fs::read_to_string(Path::new(REPOSITORY).join("docs/contract/README.md")).expect("the list of pages");
    for (area, count) in contract() {
        let page = Path::new(REPOSITORY).join(format!("docs/contract/{area}.md"));
        assert_eq!(rules(&page), (1..=count).collect::<Vec<_>>(), "{area}");
        assert!(pages.contains(&format!("| [{area}]({area}.md) |")), "the list of pages lacks {area}");
    }
}

/// Within the contract, rules refer to each other without the word "contract".
#[test]
fn references_between_rules_exist() {
    let contract = contract();
    let areas = contract.keys().cloned().collect::<Vec<_>>().join("|");
    let reference = pattern(&format!(r"(?:^|[ (\n])((?:{areas})\s\d+(?:(?:,\s|\sto\s)\d+)*)"));
    for area in contract.keys() {
        let page = Path::new(REPOSITORY).join(format!("docs/contract/{area}.md"));
        for found in reference.captures_iter(&fs::read_to_string(page).expect("a page")) {
            let text = found[1].split_whitespace().collect::<Vec<_>>().join(" ");
            for (other, rule) in numbers(&text) {
                assert!((1..=contract[&other]).contains(&rule), "{area} refers to {other} {rule}");
            }
        }
    }
}

#[test]
fn citations_are_parsed() {
    let words = |text: &str| Passage { file: String::new(), line: 1, text: text.to_owned(), is_words: true };
    let rules = |text: &str| cited(&words(text)).into_iter().collect::<Result<Vec<_>, _>>();
    let known =
        |rules: &[(&str, u32)]| Ok(rules.iter().map(|(area, rule)| ((*area).to_owned(), *rule)).collect::<Vec<_>>());
    assert_eq!(rules("Contract: sessions 4. A create…"), known(&[("sessions", 4)]));
    assert_eq!(
        rules("Mail (contract: emails 2, 4 to 6; lists)."),
        known(&[("emails", 2), ("emails", 4), ("emails", 5), ("emails", 6), ("lists", 1),])
    );
    assert_eq!(rules("What reads the contract: a linter"), known(&[]));
    for unclear in ["(contract: sessions 4 and 5)", "(contract: Sessions 4)", "(contract: sessions 4, raced)"] {
        assert!(rules(unclear).is_err(), "{unclear}");
    }
}
