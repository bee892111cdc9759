//! Prints commands in the canonical form of the grammar.

use kitfleet_types::commands::{Command, DragEnd, ElementQuery, ExtractItem, PageQuery, WaitCondition};

use super::vocabulary::{CAPTURES, DIRECTIONS, NOUNS, SWIPES};

/// One step a line. Parsing the result yields the same plan. The result contains text to type in clear.
#[must_use]
pub fn print(plan: &[Command]) -> String {
    plan.iter().map(step).collect::<Vec<_>>().join("\n")
}

fn step(command: &Command) -> String {
    match command {
        Command::Navigate { url } => format!("open {}", quoted(url)),
        Command::Tap { target } => format!("tap {}", sought(target)),
        Command::DoubleTap { target } => format!("double tap {}", sought(target)),
        Command::LongPress { target } => format!("long press {}", sought(target)),
        Command::Hover { target } => format!("hover over {}", sought(target)),
        Command::Check { target, checked } => {
            format!("{} {}", if *checked { "check" } else { "uncheck" }, sought(target))
        }
        Command::Type { target, value } => format!("type {} into {}", quoted(value), sought(target)),
        Command::Fill { target, value } => format!("fill {} with {}", sought(target), quoted(value)),
        Command::Press { key } => format!("press the {} key", quoted(key)),
        Command::Select { target, option } => format!("select {} in {}", quoted(option), sought(target)),
        Command::Upload { target, file } => format!("upload {} into {}", quoted(file), sought(target)),
        Command::Drag { target, to: DragEnd::Element(end) } => format!("drag {} to {}", sought(target), sought(end)),
        Command::Drag { target, to: DragEnd::By { delta_x, delta_y } } => {
            format!("drag {} {}", sought(target), directions((*delta_x).into(), (*delta_y).into()))
        }
        Command::Swipe { direction, distance, target } => {
            let direction =
                SWIPES.iter().find(|(_, means)| means == direction).map(|(word, _)| *word).unwrap_or_default();
            let by = distance.map(|distance| format!(" by {distance}")).unwrap_or_default();
            let on = target.as_ref().map(|target| format!(" on {}", sought(target))).unwrap_or_default();
            format!("swipe {direction}{by}{on}")
        }
        Command::Dialog { accept: true, text: Some(text) } => format!("answer the dialog with {}", quoted(text)),
        Command::Dialog { accept: true, text: None } => "accept the dialog".to_owned(),
        Command::Dialog { accept: false, .. } => "dismiss the dialog".to_owned(),
        Command::SwitchPage { page } => format!("switch to the {}", page_of(page)),
        Command::ClosePage { page: Some(page) } => format!("close the {}", page_of(page)),
        Command::ClosePage { page: None } => "close this page".to_owned(),
        Command::SetLocation { latitude, longitude } => format!("set the location to {latitude}, {longitude}"),
        Command::Scroll { delta_x, delta_y, target } => {
            let within = target.as_ref().map(|target| format!(" in {}", sought(target))).unwrap_or_default();
            format!("scroll {}{within}", directions(*delta_x, *delta_y))
        }
        Command::Wait { condition } => format!("wait {}", condition_of(condition)),
        Command::Capture { capture } => {
            let names = CAPTURES.iter().find(|(kind, _)| kind == capture).map(|(_, names)| names[0]);
            format!("take a {}", names.unwrap_or_default())
        }
        Command::Extract { items } => {
            format!("extract {}", items.iter().map(item).collect::<Vec<_>>().join(" and "))
        }
        Command::Back => "go back".to_owned(),
        Command::Forward => "go forward".to_owned(),
        Command::Reload => "reload".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

fn sought(sought: &ElementQuery) -> String {
    match sought {
        ElementQuery::Css(selector) => format!("css {}", quoted(selector)),
        ElementQuery::Ref(reference) => format!("ref {}", quoted(reference)),
        ElementQuery::Described { role, words } => described(role.as_deref(), words, false),
    }
}

fn described(role: Option<&str>, words: &str, list: bool) -> String {
    // Without “called”, the quoted words would be parsed as a selector.
    let is_selector = words.starts_with(['#', '.', '[']);
    let called = if is_selector { "called " } else { "" };
    let noun = NOUNS.iter().find(|noun| noun.role.is_some() && noun.role == role);
    let name = noun.map(|noun| if list { noun.plurals[0] } else { noun.names[0] });
    let the = if list { "" } else { "the " };
    match name.or(role) {
        Some(name) if words.is_empty() => format!("{the}{name}"),
        Some(name) => format!("{the}{name} {called}{}", quoted(words)),
        None if is_selector => format!("text {}", quoted(words)),
        None => quoted(words),
    }
}

fn directions(delta_x: i64, delta_y: i64) -> String {
    let direction = |delta: i64, along: (i64, i64), against: (i64, i64)| {
        let to = if delta < 0 { against } else { along };
        let word = DIRECTIONS.iter().find(|(means, _)| *means == to).map(|(_, word)| *word).unwrap_or_default();
        format!("{word} by {}", delta.unsigned_abs())
    };
    match (delta_x, delta_y) {
        (0, y) => direction(y, (0, 1), (0, -1)),
        (x, 0) => direction(x, (1, 0), (-1, 0)),
        (x, y) => format!("{} {}", direction(x, (1, 0), (-1, 0)), direction(y, (0, 1), (0, -1))),
    }
}

fn condition_of(condition: &WaitCondition) -> String {
    match condition {
        WaitCondition::Visible(target) => format!("for {}", sought(target)),
        WaitCondition::Hidden(target) => format!("for {} to disappear", sought(target)),
        WaitCondition::Url(pattern) => format!("for the address to match {}", quoted(pattern)),
        WaitCondition::Time { ms } => format!("{ms} ms"),
        WaitCondition::Download => "for a download".to_owned(),
        WaitCondition::Page => "for a new page".to_owned(),
    }
}

fn page_of(page: &PageQuery) -> String {
    match page {
        PageQuery::Words(words) => format!("page {}", quoted(words)),
        PageQuery::Other => "other page".to_owned(),
        PageQuery::Id(id) => format!("page ref {}", quoted(&id.to_string())),
    }
}

fn item(item: &ExtractItem) -> String {
    let of = item.attribute.as_ref().map(|name| format!("the attribute {} of ", quoted(name))).unwrap_or_default();
    let target = match &item.target {
        ElementQuery::Described { role, words } if item.list => {
            format!("all {}", described(role.as_deref(), words, true))
        }
        target if item.list => format!("all {}", sought(target)),
        target => sought(target),
    };
    format!("{of}{target} as {}", quoted(&item.name))
}
