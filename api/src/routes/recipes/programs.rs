//! A recipe as a program (contract: recipes 13 to 16): plain calls of the REST interface, in the language of whoever runs it.
//!
//! A page's words, and a customer's, are data of a program and never a part of its code. So every text of a body is written by
//! [`quoted`], in ASCII and without a quotation mark that would end it in any of the three languages, and comments hold only
//! characters that show. Everything else in a program is written here. What was typed is not known here at all: whoever runs a program
//! says it, by variables of the environment.

mod curl;
mod python;
#[cfg(test)]
mod tests;
mod typescript;

use std::collections::BTreeMap;

use kitfleet_domain::operations::CaptureKind;
use kitfleet_domain::recipes::steps::{Condition, Element, Item, Sought, Step};

/// What a program can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Bash, which calls curl.
    Curl,
    /// Python, with its standard library.
    Python,
    /// TypeScript for Node, which is JavaScript as well: no type has to be written down in it.
    Typescript,
}

impl Language {
    /// The language of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Curl, Self::Python, Self::Typescript].into_iter().find(|language| language.name() == name)
    }

    /// As a request spells it.
    fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Python => "python",
            Self::Typescript => "typescript",
        }
    }

    /// How a file of it ends.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Curl => "sh",
            Self::Python => "py",
            Self::Typescript => "mts",
        }
    }

    /// The media type of a program.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Curl => "text/x-shellscript",
            Self::Python => "text/x-python",
            Self::Typescript => "text/x-typescript",
        }
    }

    /// The program that does these steps on the service at `base_url`.
    pub fn write(self, label: &str, steps: &[Step], base_url: &str) -> String {
        let program = Program::of(label, steps, base_url);
        match self {
            Self::Curl => curl::write(&program),
            Self::Python => python::write(&program),
            Self::Typescript => typescript::write(&program),
        }
    }
}

/// A program before it is written in a language.
struct Program<'a> {
    /// Where the service is, unless whoever runs it says otherwise.
    base_url: &'a str,
    /// What it is called, for a comment.
    label: String,
    variables: Vec<Variable>,
    calls: Vec<Call<'a>>,
}

/// What is typed in one step, which whoever runs it says.
struct Variable {
    name: String,
    /// For a comment.
    what: String,
}

/// One operation on the session.
struct Call<'a> {
    /// For a comment.
    what: String,
    operation: &'static str,
    body: Json<'a>,
    answer: Answer,
}

/// What becomes of what an operation answers.
enum Answer {
    Dropped,
    /// It is printed, as the service wrote it.
    Printed,
    /// Its content is put into a file.
    Bytes(String),
    /// The same, of a text.
    Text(String),
}

/// A body, in which something may be said by whoever runs the program.
enum Json<'a> {
    Text(&'a str),
    Number(i64),
    True,
    /// The value of this variable.
    Typed(String),
    Object(Vec<(&'a str, Json<'a>)>),
    List(Vec<Json<'a>>),
}

/// How a language writes what differs.
struct Words {
    truth: &'static str,
    /// The value of a variable of the environment.
    typed: fn(&str) -> String,
}

impl Json<'_> {
    fn written(&self, words: &Words) -> String {
        let mut text = String::new();
        self.write(words, &mut text);
        text
    }

    fn write(&self, words: &Words, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::True => out.push_str(words.truth),
            Self::Typed(variable) => out.push_str(&(words.typed)(variable)),
            Self::Object(members) => {
                let member = |(name, value): &(&str, Json), out: &mut String| {
                    out.push_str(&quoted(name));
                    out.push_str(": ");
                    value.write(words, out);
                };
                separated(members, ['{', '}'], out, member);
            }
            Self::List(values) => separated(values, ['[', ']'], out, |value, out| value.write(words, out)),
        }
    }
}

fn separated<T>(items: &[T], [begin, end]: [char; 2], out: &mut String, write: impl Fn(&T, &mut String)) {
    out.push(begin);
    for (nth, item) in items.iter().enumerate() {
        if nth > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push(end);
}

/// A text as JSON, Python and TypeScript write it, in letters, digits and marks of ASCII. There is no apostrophe in it either, so
/// that a shell takes it as it is between two of them. What lies beyond U+FFFF becomes the two halves of UTF-16; Python keeps
/// them apart, and its `json` writes them as they stood.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            ' '..='~' if letter != '\'' => out.push(letter),
            _ => out.extend(letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}"))),
        }
    }
    out.push('"');
    out
}

/// How many characters of a text a comment shows.
const SHOWN: usize = 200;

/// A text as a comment may have it: one line of characters that show. Whatever ends a line somewhere, or turns the direction of
/// writing, is none of them.
fn shown(text: &str) -> String {
    let is_visible = |letter: char| letter.is_alphanumeric() || matches!(letter, ' '..='~');
    let mut letters = text.chars();
    let mut line: String =
        letters.by_ref().take(SHOWN).map(|letter| if is_visible(letter) { letter } else { '?' }).collect();
    if letters.next().is_some() {
        line.push_str("...");
    }
    line
}

impl<'a> Program<'a> {
    fn of(label: &str, steps: &'a [Step], base_url: &'a str) -> Self {
        let base_url = base_url.trim_end_matches('/');
        let mut program = Self { base_url, label: shown(label), variables: Vec::new(), calls: Vec::new() };
        let mut names = BTreeMap::new();
        for (nth, step) in steps.iter().enumerate() {
            let number = nth + 1;
            let variable = |element: &Element| {
                let name = unused(&variable_name(element), &mut names);
                let secret = if element.is_for_secrets() { ", which is a secret" } else { "" };
                let what = shown(&format!("what step {number} types into {}{secret}", name_of(element)));
                program.variables.push(Variable { name: name.clone(), what });
                name
            };
            let (operation, body) = request(step, variable);
            let what = format!("{number}. {}", shown(&told(step)));
            program.calls.push(Call { what, operation, body, answer: answer(step, number) });
        }
        program
    }

    /// The variables that have to be set.
    fn needed(&self) -> impl Iterator<Item = &str> {
        [API_KEY].into_iter().chain(self.variables.iter().map(|variable| variable.name.as_str()))
    }

    /// The comment at its beginning. It has a dozen lines before anything that somebody else wrote: in the first ones of a file some
    /// programs look for more than comments, as Python does for an encoding.
    fn preface(&self, mark: &str, needs: &str, run: &str) -> String {
        let mut lines = vec![
            format!("A recipe of Kitfleet as a program: plain calls of its REST interface. It needs {needs}."),
            String::new(),
            format!("    {run}"),
            String::new(),
            "These variables of the environment say what it does not know; it ends before it begins when one is missing:".to_owned(),
            String::new(),
            format!("    {API_KEY}: a key that may write sessions"),
            format!("    {URL}: where the service is, if it is not at the address below"),
        ];
        lines.extend(self.variables.iter().map(|Variable { name, what }| format!("    {name}: {what}")));
        lines.push(String::new());
        lines.push(format!("The recipe: {}", self.label));
        lines.into_iter().map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n").collect()
    }
}

/// Who calls.
const API_KEY: &str = "KITFLEET_API_KEY";
/// Where the service is.
const URL: &str = "KITFLEET_URL";

/// The name of the variable for what is typed into an element, after what the field is called. The prefix keeps it from being one
/// that means something to the machine, whatever a page calls its fields.
fn variable_name(element: &Element) -> String {
    let called = element.description.split_once('"').map(|(_, rest)| rest.trim_end_matches('"'));
    let from = |text: &str| {
        let letters: String =
            text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { ' ' }).collect();
        let words: Vec<_> = letters.split_whitespace().take(5).map(|word| &word[..word.len().min(20)]).collect();
        words.join("_")
    };
    let names = [called.unwrap_or_default(), &element.selector].map(from);
    let name = names.iter().find(|name| !name.is_empty()).map_or("TEXT", String::as_str);
    format!("RECIPE_{name}")
}

/// A name that is not among `names` yet, to which it comes. Each name there has the number that was tried last for it, so that a thousand
/// fields of one name take a thousand tries.
fn unused(name: &str, names: &mut BTreeMap<String, u32>) -> String {
    let Some(mut tried) = names.get(name).copied() else {
        names.insert(name.to_owned(), 1);
        return name.to_owned();
    };
    loop {
        tried += 1;
        let free = format!("{name}_{tried}");
        if !names.contains_key(&free) {
            names.insert(name.to_owned(), tried);
            names.insert(free.clone(), 1);
            return free;
        }
    }
}

/// A step as a request: the operation, and its body. `variable` names the one for what is typed into an element.
fn request(step: &Step, variable: impl FnOnce(&Element) -> String) -> (&'static str, Json<'_>) {
    match step {
        Step::Navigate { url } => ("navigate", Json::Object(vec![("url", Json::Text(url))])),
        Step::Tap(element) => act("tap", vec![("selector", Json::Text(&element.selector))]),
        Step::Type { element, .. } => {
            let mut more = vec![("selector", Json::Text(&element.selector)), ("text", Json::Typed(variable(element)))];
            if element.is_for_secrets() {
                more.push(("sensitive", Json::True));
            }
            act("type", more)
        }
        Step::Press { key } => act("press", vec![("key", Json::Text(key))]),
        Step::Select { element, option } => {
            act("select", vec![("selector", Json::Text(&element.selector)), ("option", Json::Text(option))])
        }
        Step::Scroll { delta_x, delta_y, target } => {
            let selector = target.iter().map(|element| ("selector", Json::Text(&element.selector)));
            let by = [("delta_x", Json::Number(*delta_x)), ("delta_y", Json::Number(*delta_y))];
            act("scroll", selector.chain(by).collect())
        }
        Step::Wait { condition } => ("wait", Json::Object(vec![("condition", Json::Object(waiting(condition)))])),
        Step::Capture { capture } => ("capture", Json::Object(vec![("kind", Json::Text(capture.name()))])),
        Step::Extract { items } => {
            ("extract", Json::Object(vec![("extractions", Json::List(items.iter().map(extraction).collect()))]))
        }
        Step::Back => act("back", Vec::new()),
        Step::Reload => act("reload", Vec::new()),
    }
}

fn act<'a>(kind: &'a str, more: Vec<(&'a str, Json<'a>)>) -> (&'static str, Json<'a>) {
    let action = [("kind", Json::Text(kind))].into_iter().chain(more).collect();
    ("interact", Json::Object(vec![("action", Json::Object(action))]))
}

fn waiting(condition: &Condition) -> Vec<(&'static str, Json<'_>)> {
    let (kind, more) = match condition {
        Condition::Selector(sought) => ("selector", looked_for(sought)),
        Condition::SelectorHidden(sought) => ("selector_hidden", looked_for(sought)),
        Condition::UrlMatches { pattern } => ("url_matches", ("pattern", Json::Text(pattern))),
        Condition::Time { ms } => ("time", ("ms", Json::Number(i64::try_from(*ms).unwrap_or(i64::MAX)))),
    };
    vec![("kind", Json::Text(kind)), more]
}

/// The member that says whom an operation has to look for.
fn looked_for(sought: &Sought) -> (&'static str, Json<'_>) {
    match sought.target() {
        Some(members) => {
            ("target", Json::Object(members.into_iter().map(|(name, text)| (name, Json::Text(text))).collect()))
        }
        None => ("selector", Json::Text(sought.selector().unwrap_or_default())),
    }
}

fn extraction(item: &Item) -> Json<'_> {
    let mut members = vec![("name", Json::Text(&item.name)), looked_for(&item.sought)];
    let kind = match &item.attribute {
        _ if item.list => "list",
        Some(_) => "attribute",
        None => "text",
    };
    members.push(("type", Json::Text(kind)));
    members.extend(item.attribute.iter().map(|attribute| ("attribute", Json::Text(attribute))));
    Json::Object(members)
}

fn answer(step: &Step, number: usize) -> Answer {
    match step {
        Step::Extract { .. } => Answer::Printed,
        Step::Capture { capture: CaptureKind::Screenshot } => Answer::Bytes(format!("step-{number}.png")),
        Step::Capture { capture: CaptureKind::Pdf } => Answer::Bytes(format!("step-{number}.pdf")),
        Step::Capture { capture: CaptureKind::DomSnapshot } => Answer::Text(format!("step-{number}.html")),
        _ => Answer::Dropped,
    }
}

/// A step in words.
fn told(step: &Step) -> String {
    match step {
        Step::Navigate { url } => format!("Open {url}"),
        Step::Tap(element) => format!("Tap {}", name_of(element)),
        Step::Type { element, .. } => format!("Type into {}", name_of(element)),
        Step::Press { key } => format!("Press {key}"),
        Step::Select { element, option } => format!("Select {option} in {}", name_of(element)),
        Step::Scroll { delta_x, delta_y, target: None } => format!("Scroll by {delta_x}, {delta_y}"),
        Step::Scroll { delta_x, delta_y, target: Some(element) } => {
            format!("Scroll {} by {delta_x}, {delta_y}", name_of(element))
        }
        Step::Wait { condition: Condition::Selector(sought) } => format!("Wait for {}", sought.description),
        Step::Wait { condition: Condition::SelectorHidden(sought) } => {
            format!("Wait until {} is gone", sought.description)
        }
        Step::Wait { condition: Condition::UrlMatches { pattern } } => format!("Wait for an address like {pattern}"),
        Step::Wait { condition: Condition::Time { ms } } => format!("Wait for {ms} ms"),
        Step::Capture { capture: CaptureKind::Screenshot } => "Take a screenshot".to_owned(),
        Step::Capture { capture: CaptureKind::Pdf } => "Print it as PDF".to_owned(),
        Step::Capture { capture: CaptureKind::DomSnapshot } => "Take the document".to_owned(),
        Step::Extract { items } => {
            let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
            format!("Read {}", names.join(", "))
        }
        Step::Back => "Go back".to_owned(),
        Step::Reload => "Load it again".to_owned(),
    }
}

fn name_of(element: &Element) -> &str {
    if element.description.is_empty() { &element.selector } else { &element.description }
}
