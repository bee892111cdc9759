//! Recipes as programs (contract: recipes 13 to 16), as plain calls of the REST API.
//!
//! Texts from pages and customers are data of a program, never code. Every text of a body is written by [`quoted`]: in ASCII,
//! without a quotation mark that would end it in any of the three languages. Comments contain only visible characters.

mod curl;
mod python;
#[cfg(test)]
mod tests;
mod typescript;

use std::collections::BTreeMap;

use kitfleet_domain::agents::steps::LONG_PRESS_MS;
use kitfleet_domain::recipes::steps::{Condition, DragEnd, Element, Item, Page, RecipeLocator, Step};
use kitfleet_types::operations::{CaptureKind, Direction};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Curl,
    /// Standard library only.
    Python,
    /// For Node. Also valid JavaScript, because no type annotations are needed.
    Typescript,
}

impl Language {
    pub fn named(name: &str) -> Option<Self> {
        [Self::Curl, Self::Python, Self::Typescript].into_iter().find(|language| language.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Python => "python",
            Self::Typescript => "typescript",
        }
    }

    pub fn extension(self) -> &'static str {
        match self {
            Self::Curl => "sh",
            Self::Python => "py",
            Self::Typescript => "mts",
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Curl => "text/x-shellscript",
            Self::Python => "text/x-python",
            Self::Typescript => "text/x-typescript",
        }
    }

    pub fn write(self, label: &str, steps: &[Step], base_url: &str) -> String {
        let program = Program::of(label, steps, base_url);
        match self {
            Self::Curl => curl::write(&program),
            Self::Python => python::write(&program),
            Self::Typescript => typescript::write(&program),
        }
    }
}

struct Program<'a> {
    base_url: &'a str,
    label: String,
    variables: Vec<Variable>,
    calls: Vec<Call<'a>>,
    /// True if the session must hold dialogs, because a step answers one.
    holds_dialogs: bool,
}

/// Text that one step types; the user of the program supplies it.
struct Variable {
    name: String,
    /// For a comment.
    what: String,
}

struct Call<'a> {
    /// For a comment.
    what: String,
    request: Request<'a>,
    answer: Answer,
}

enum Request<'a> {
    Operation(&'static str, Json<'a>),
    Emulation(Json<'a>),
    /// Position in the list of pages.
    ActivatePage(u32),
    /// Position in the list of pages.
    ClosePage(u32),
}

enum Answer {
    Dropped,
    Printed,
    Bytes(String),
    Text(String),
    /// Of the download that the response names.
    Download(String),
}

/// Can contain values that the user of the program supplies.
enum Json<'a> {
    Text(&'a str),
    Number(i64),
    /// Number with decimal digits.
    Decimal(String),
    Truth(bool),
    Typed(String),
    Object(Vec<(&'a str, Json<'a>)>),
    List(Vec<Json<'a>>),
}

struct LanguageSyntax {
    /// `false` and `true`.
    truths: [&'static str; 2],
    typed: fn(&str) -> String,
}

impl Json<'_> {
    fn written(&self, syntax: &LanguageSyntax) -> String {
        let mut text = String::new();
        self.write(syntax, &mut text);
        text
    }

    fn write(&self, syntax: &LanguageSyntax, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(&quoted(text)),
            Self::Number(number) => out.push_str(&number.to_string()),
            Self::Decimal(number) => out.push_str(number),
            Self::Truth(truth) => out.push_str(syntax.truths[usize::from(*truth)]),
            Self::Typed(variable) => out.push_str(&(syntax.typed)(variable)),
            Self::Object(members) => {
                let member = |(name, value): &(&str, Json), out: &mut String| {
                    out.push_str(&quoted(name));
                    out.push_str(": ");
                    value.write(syntax, out);
                };
                separated(members, ['{', '}'], out, member);
            }
            Self::List(values) => separated(values, ['[', ']'], out, |value, out| value.write(syntax, out)),
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

/// For JSON, Python and TypeScript, in printable ASCII. Without an apostrophe, so that a shell can quote it. A character beyond
/// U+FFFF becomes two UTF-16 surrogates; Python keeps them separate, and its `json` module writes the same two escapes.
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

/// In characters.
const SHOWN: usize = 200;

/// One line of visible characters. Line separators and marks that change the writing direction are replaced.
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
        let holds_dialogs = steps.iter().any(|step| matches!(step, Step::Dialog { .. }));
        let label = shown(label);
        let mut program = Self { base_url, label, variables: Vec::new(), calls: Vec::new(), holds_dialogs };
        let mut names = BTreeMap::new();
        for (nth, step) in steps.iter().enumerate() {
            let number = nth + 1;
            let variable = |element: &Element| {
                let name = unique_name(&variable_name(element), &mut names);
                let secret = if element.is_for_secrets() { ", a secret" } else { "" };
                let what = shown(&format!("text that step {number} types into {}{secret}", name_of(element)));
                program.variables.push(Variable { name: name.clone(), what });
                name
            };
            let request = request(step, variable);
            let what = format!("{number}. {}", shown(&describe_step(step)));
            program.calls.push(Call { what, request, answer: answer(step, number) });
        }
        program
    }

    fn creates(&self) -> Json<'static> {
        Json::Object(self.holds_dialogs.then_some(("dialogs", Json::Text("hold"))).into_iter().collect())
    }

    fn needed(&self) -> impl Iterator<Item = &str> {
        [API_KEY].into_iter().chain(self.variables.iter().map(|variable| variable.name.as_str()))
    }

    /// About twelve lines precede the first text of a customer or page, because some programs interpret the first lines of a
    /// file: Python looks there for an encoding.
    fn file_header(&self, mark: &str, needs: &str, run: &str) -> String {
        let mut lines = vec![
            format!("A Kitfleet recipe as a program that calls the REST API. It needs {needs}."),
            String::new(),
            format!("    {run}"),
            String::new(),
            "Set these environment variables. The program exits before the first step if a required one is missing:"
                .to_owned(),
            String::new(),
            format!("    {API_KEY}: an API key with the scope write:sessions"),
            format!("    {URL}: address of the service; optional, the default is below"),
        ];
        lines.extend(self.variables.iter().map(|Variable { name, what }| format!("    {name}: {what}")));
        lines.push(String::new());
        lines.push(format!("Recipe: {}", self.label));
        lines.into_iter().map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n").collect()
    }
}

const API_KEY: &str = "KITFLEET_API_KEY";
const URL: &str = "KITFLEET_URL";

/// Derived from the field's name. The prefix prevents a page from choosing a name with a meaning to the operating system.
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

/// Each entry stores the last number tried for that name, so that a thousand fields of one name take a thousand tries.
fn unique_name(name: &str, names: &mut BTreeMap<String, u32>) -> String {
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

/// `variable` names the variable for the text typed into an element.
fn request(step: &Step, variable: impl FnOnce(&Element) -> String) -> Request<'_> {
    match step {
        Step::Navigate { url } => Request::Operation("navigate", Json::Object(vec![("url", Json::Text(url))])),
        Step::Tap(element) => act("tap", vec![at(element)]),
        Step::DoubleTap(element) => act("tap", vec![at(element), ("count", Json::Number(2))]),
        Step::LongPress(element) => {
            let hold_ms = i64::try_from(LONG_PRESS_MS).unwrap_or(i64::MAX);
            act("tap", vec![at(element), ("hold_ms", Json::Number(hold_ms))])
        }
        Step::Check { element, checked } => act("check", vec![at(element), ("checked", Json::Truth(*checked))]),
        Step::Fill { element, .. } => act("fill", vec![at(element), ("value", Json::Typed(variable(element)))]),
        Step::Drag { element, to: DragEnd::Element(end) } => {
            act("drag", vec![at(element), ("to", Json::Object(vec![at(end)]))])
        }
        Step::Drag { element, to: DragEnd::Path(path) } => {
            act("drag", vec![at(element), ("path", Json::List(path.iter().map(point).collect()))])
        }
        Step::Swipe { direction, distance, target } => {
            let direction = match direction {
                Direction::Up => "up",
                Direction::Down => "down",
                Direction::Left => "left",
                Direction::Right => "right",
            };
            let distance = distance.map(|distance| ("distance", Json::Number(distance.into())));
            let more = target.iter().map(at).chain(distance);
            act("swipe", [("direction", Json::Text(direction))].into_iter().chain(more).collect())
        }
        Step::Hover(element) => act("hover", vec![at(element)]),
        Step::Dialog { accept, text } => {
            let typed = text.as_ref().map(|_| ("text", Json::Typed(variable(&answered()))));
            act("dialog", [("accept", Json::Truth(*accept))].into_iter().chain(typed).collect())
        }
        Step::ActivatePage(page) => Request::ActivatePage(page.position),
        Step::ClosePage(page) => Request::ClosePage(page.position),
        Step::SetLocation { latitude, longitude } => {
            let position = vec![
                ("latitude", Json::Decimal(latitude.to_string())),
                ("longitude", Json::Decimal(longitude.to_string())),
                ("accuracy", Json::Number(10)),
            ];
            Request::Emulation(Json::Object(vec![("geolocation", Json::Object(position))]))
        }
        Step::Type { element, .. } => {
            let mut more = vec![at(element), ("text", Json::Typed(variable(element)))];
            if element.is_for_secrets() {
                more.push(("sensitive", Json::Truth(true)));
            }
            act("type", more)
        }
        Step::Press { key } => act("press", vec![("key", Json::Text(key))]),
        Step::Select { element, option } => act("select", vec![at(element), ("option", Json::Text(option))]),
        Step::Scroll { delta_x, delta_y, target } => {
            let selector = target.iter().map(at);
            let by = [("delta_x", Json::Number(*delta_x)), ("delta_y", Json::Number(*delta_y))];
            act("scroll", selector.chain(by).collect())
        }
        Step::Wait { condition } => {
            Request::Operation("wait", Json::Object(vec![("condition", Json::Object(waiting(condition)))]))
        }
        Step::Capture { capture } => {
            Request::Operation("capture", Json::Object(vec![("kind", Json::Text(capture.name()))]))
        }
        Step::Extract { items } => {
            let extractions = Json::List(items.iter().map(extraction).collect());
            Request::Operation("extract", Json::Object(vec![("extractions", extractions)]))
        }
        Step::Back => act("back", Vec::new()),
        Step::Forward => act("forward", Vec::new()),
        Step::Reload => act("reload", Vec::new()),
    }
}

fn at(element: &Element) -> (&'static str, Json<'_>) {
    ("selector", Json::Text(&element.selector))
}

/// Stands for the field of a dialog, in names and comments.
fn answered() -> Element {
    Element { selector: String::new(), description: "the dialog \"answer\"".to_owned() }
}

/// Point of a path, which a recipe has in tenths of CSS pixels.
fn point<'a>((x, y): &(i64, i64)) -> Json<'a> {
    let pixels = |tenths: i64| {
        let sign = if tenths < 0 { "-" } else { "" };
        Json::Decimal(format!("{sign}{}.{}", tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10))
    };
    Json::Object(vec![("x", pixels(*x)), ("y", pixels(*y))])
}

fn act<'a>(kind: &'a str, more: Vec<(&'a str, Json<'a>)>) -> Request<'a> {
    let action = [("kind", Json::Text(kind))].into_iter().chain(more).collect();
    Request::Operation("interact", Json::Object(vec![("action", Json::Object(action))]))
}

fn waiting(condition: &Condition) -> Vec<(&'static str, Json<'_>)> {
    let (kind, more) = match condition {
        Condition::Download => return vec![("kind", Json::Text("download"))],
        Condition::Page => return vec![("kind", Json::Text("page"))],
        Condition::Selector(sought) => ("selector", locator_member(sought)),
        Condition::SelectorHidden(sought) => ("selector_hidden", locator_member(sought)),
        Condition::UrlMatches { pattern } => ("url_matches", ("pattern", Json::Text(pattern))),
        Condition::Time { ms } => ("time", ("ms", Json::Number(i64::try_from(*ms).unwrap_or(i64::MAX)))),
    };
    vec![("kind", Json::Text(kind)), more]
}

/// Body member that locates an element.
fn locator_member(sought: &RecipeLocator) -> (&'static str, Json<'_>) {
    match sought.target() {
        Some(members) => {
            ("target", Json::Object(members.into_iter().map(|(name, text)| (name, Json::Text(text))).collect()))
        }
        None => ("selector", Json::Text(sought.selector().unwrap_or_default())),
    }
}

fn extraction(item: &Item) -> Json<'_> {
    let mut members = vec![("name", Json::Text(&item.name)), locator_member(&item.sought)];
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
        Step::Wait { condition: Condition::Download } => Answer::Download(format!("step-{number}.download")),
        Step::Capture { capture: CaptureKind::Screenshot } => Answer::Bytes(format!("step-{number}.png")),
        Step::Capture { capture: CaptureKind::Pdf } => Answer::Bytes(format!("step-{number}.pdf")),
        Step::Capture { capture: CaptureKind::DomSnapshot } => Answer::Text(format!("step-{number}.html")),
        _ => Answer::Dropped,
    }
}

fn describe_step(step: &Step) -> String {
    match step {
        Step::Navigate { url } => format!("Open {url}"),
        Step::Tap(element) => format!("Tap {}", name_of(element)),
        Step::DoubleTap(element) => format!("Tap {} twice", name_of(element)),
        Step::LongPress(element) => format!("Hold {}", name_of(element)),
        Step::Check { element, checked: true } => format!("Check {}", name_of(element)),
        Step::Check { element, checked: false } => format!("Uncheck {}", name_of(element)),
        Step::Fill { element, .. } => format!("Fill in {}", name_of(element)),
        Step::Drag { element, to: DragEnd::Element(end) } => format!("Drag {} to {}", name_of(element), name_of(end)),
        Step::Drag { element, to: DragEnd::Path(_) } => format!("Drag {}", name_of(element)),
        Step::Swipe { target: None, .. } => "Swipe".to_owned(),
        Step::Swipe { target: Some(element), .. } => format!("Swipe on {}", name_of(element)),
        Step::Hover(element) => format!("Point at {}", name_of(element)),
        Step::Dialog { accept: true, .. } => "Accept the dialog".to_owned(),
        Step::Dialog { accept: false, .. } => "Dismiss the dialog".to_owned(),
        Step::ActivatePage(Page { description, .. }) => format!("Switch to {description}"),
        Step::ClosePage(Page { description, .. }) => format!("Close {description}"),
        Step::SetLocation { latitude, longitude } => format!("Set the location to {latitude}, {longitude}"),
        Step::Type { element, .. } => format!("Type into {}", name_of(element)),
        Step::Press { key } => format!("Press {key}"),
        Step::Select { element, option } => format!("Select {option} in {}", name_of(element)),
        Step::Scroll { delta_x, delta_y, target: None } => format!("Scroll by {delta_x}, {delta_y}"),
        Step::Scroll { delta_x, delta_y, target: Some(element) } => {
            format!("Scroll {} by {delta_x}, {delta_y}", name_of(element))
        }
        Step::Wait { condition: Condition::Selector(sought) } => format!("Wait for {}", sought.description),
        Step::Wait { condition: Condition::SelectorHidden(sought) } => {
            format!("Wait until {} disappears", sought.description)
        }
        Step::Wait { condition: Condition::UrlMatches { pattern } } => {
            format!("Wait for an address that matches {pattern}")
        }
        Step::Wait { condition: Condition::Time { ms } } => format!("Wait for {ms} ms"),
        Step::Wait { condition: Condition::Download } => "Wait for a download".to_owned(),
        Step::Wait { condition: Condition::Page } => "Wait for a new page".to_owned(),
        Step::Capture { capture: CaptureKind::Screenshot } => "Take a screenshot".to_owned(),
        Step::Capture { capture: CaptureKind::Pdf } => "Capture a PDF".to_owned(),
        Step::Capture { capture: CaptureKind::DomSnapshot } => "Capture the DOM".to_owned(),
        Step::Extract { items } => {
            let names: Vec<_> = items.iter().map(|item| item.name.as_str()).collect();
            format!("Read {}", names.join(", "))
        }
        Step::Back => "Go back".to_owned(),
        Step::Forward => "Go forward".to_owned(),
        Step::Reload => "Reload the page".to_owned(),
    }
}

fn name_of(element: &Element) -> &str {
    if element.description.is_empty() { &element.selector } else { &element.description }
}
