//! The deterministic decomposer: parses a message by a documented grammar (contract: agent-grammar).
//!
//! Breaks such as commas and line ends separate the steps, and the rule of its verb parses each step. The words of all
//! rules are in tables (`vocabulary.rs`), which also generate the public documentation. Parsing takes time linear in
//! the message.
//!
//! An ambiguous message is rejected with a question, because a wrong guess could change the customer's account. A
//! message is executed as a whole or not at all.

mod addresses;
mod canonical;
mod dates;
mod errors;
mod gestures;
pub mod hiding;
mod keys;
mod lexing;
mod pages;
#[cfg(test)]
mod properties;
mod steps;
mod targets;
#[cfg(test)]
mod tests;
mod tokens;
mod values;
mod vocabulary;

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

use kitfleet_types::addresses::Destinations;
use kitfleet_types::commands::{Command, DragEnd, ElementQuery, PageQuery, ParsedMessage, WaitCondition};
use kitfleet_types::limits::Limits;

pub use self::canonical::print;
use self::errors::{GrammarError, GrammarErrorKind};
use self::tokens::{Kind, Token};
use self::vocabulary::{FILLERS, StepSyntax};
pub use self::vocabulary::{KEYS, KeyName, MODIFIERS, NOUNS, Noun, VERBS, Verb};

#[derive(Debug, Clone, Copy)]
pub struct Rules<'r> {
    pub destinations: &'r Destinations,
    pub limits: &'r Limits,
    pub max_steps: usize,
    pub max_characters: usize,
}

#[derive(Clone, Copy)]
struct Context<'r> {
    message: &'r str,
    rules: &'r Rules<'r>,
}

/// Has commands only if the whole message was understood (contract: agent-grammar 1, 2).
#[must_use]
pub fn read(message: &str, rules: &Rules<'_>) -> ParsedMessage {
    let max = rules.max_characters;
    if message.chars().nth(max).is_some() {
        return ParsedMessage::Clarify { reply: format!("Nothing was done: a message has at most {max} characters.") };
    }
    match plan(Context { message, rules }) {
        Ok(plan) => ParsedMessage::Plan(plan),
        Err(error) => error.into_reading(message),
    }
}

/// The next step may omit the same verb.
struct PreviousStep {
    verb: &'static Verb,
    kind: Discriminant<Command>,
}

fn plan(context: Context<'_>) -> Result<Vec<Command>, GrammarError> {
    let tokens = with_coordinates(lexing::lex(context.message)?, context.message);
    let mut plan: Vec<Command> = Vec::new();
    let mut before: Option<PreviousStep> = None;
    // All breaks since the previous step were soft.
    let mut continues = false;
    for piece in tokens.chunk_by(|one, other| !is_break(one) && !is_break(other)) {
        if let [Token { kind: Kind::Break { soft }, .. }] = piece {
            continues = continues && *soft;
            continue;
        }
        let step = without_fillers(piece);
        let Some(first) = step.first() else { continue };
        if plan.len() == context.rules.max_steps {
            let kind = GrammarErrorKind::reason(format!("is one step too many: a message has at most {}", plan.len()));
            return Err(GrammarError::hidden(first.span.clone(), kind));
        }
        let (verb, command) = read_step(step, before.as_ref(), continues, context)?;
        before = Some(PreviousStep { verb, kind: discriminant(&command) });
        continues = true;
        match (command, plan.last_mut()) {
            // Consecutive extractions after one verb become one command, so that their values come from the same state
            // of the page.
            (Command::Extract { items: more }, Some(Command::Extract { items })) if !begins_with_verb(step) => {
                items.extend(more);
            }
            (command, _) => plan.push(command),
        }
        if let Some(Command::Extract { items }) = plan.last() {
            let mut names = HashSet::new();
            if items.len() > context.rules.limits.extractions || !items.iter().all(|item| names.insert(&item.name)) {
                let kind = GrammarErrorKind::reason("uses a name twice; give another name after “as”");
                return Err(targets::error_at(step, kind).in_step(verb, first));
            }
        }
    }
    if plan.is_empty() {
        return Err(GrammarError::hidden(0..0, GrammarErrorKind::reason("contains no command")));
    }
    Ok(plan)
}

/// Such a word reveals nothing about the customer.
fn knows(word: &str) -> bool {
    vocabulary::has(word)
}

fn is_break(token: &Token<'_>) -> bool {
    matches!(token.kind, Kind::Break { .. })
}

/// The comma between the two numbers of a location does not separate steps.
fn with_coordinates<'m>(tokens: Vec<Token<'m>>, message: &str) -> Vec<Token<'m>> {
    let mut kept: Vec<Token<'m>> = Vec::with_capacity(tokens.len());
    let (mut begins, mut rest) = (0, tokens.into_iter().peekable());
    while let Some(token) = rest.next() {
        let is_comma = is_break(&token) && &message[token.span.clone()] == ",";
        if is_comma
            && kept.last().is_some_and(is_number)
            && rest.peek().is_some_and(is_number)
            && is_location(&kept[begins..])
        {
            continue;
        }
        if is_break(&token) {
            begins = kept.len() + 1;
        }
        kept.push(token);
    }
    kept
}

fn is_number(token: &Token<'_>) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '\u{2212}');
    token.kind == Kind::Word && token.text.chars().all(is_part)
}

fn is_location(step: &[Token<'_>]) -> bool {
    steps::verb(without_fillers(step)).is_some_and(|(verb, ..)| verb.act == StepSyntax::SetLocation)
}

fn without_fillers<'m>(mut step: &'m [Token<'m>]) -> &'m [Token<'m>] {
    while let [first, rest @ ..] = step
        && FILLERS.iter().any(|filler| first.is(filler))
    {
        step = rest;
    }
    match step.split_last() {
        Some((last, rest)) if last.is("please") => rest,
        _ => step,
    }
}

fn begins_with_verb(step: &[Token<'_>]) -> bool {
    steps::verb(step).is_some()
}

/// Parses a step by its own verb, or by the verb of the previous step. A step without a verb must be of the same kind as the
/// previous one.
fn read_step<'m>(
    step: &'m [Token<'m>],
    before: Option<&PreviousStep>,
    continues: bool,
    context: Context<'_>,
) -> Result<(&'static Verb, Command), GrammarError> {
    let first = &step[0];
    let (verb, verb_token, rest) = match (steps::verb(step), before) {
        (Some(verb), _) => verb,
        (None, Some(before)) if continues && may_stand_alone(first) => (before.verb, first, step),
        (None, Some(before)) if before.verb.act.enters_text() => {
            return Err(GrammarError::hidden(first.span.clone(), GrammarErrorKind::Unknown));
        }
        (None, _) => return Err(GrammarError::at(first.span.clone(), GrammarErrorKind::Unknown)),
    };
    let is_taken_over = rest.len() == step.len();
    let command = steps::command(verb, verb_token, rest, context).map_err(|error| {
        let error = GrammarError::of(error).in_step(verb, verb_token);
        // The step may begin with text to type, so the error message must not repeat it.
        if is_taken_over { error.hiding_but(&(0..0)) } else { error }
    })?;
    let at = |kind: GrammarErrorKind| GrammarError::hidden(verb_token.span.clone(), kind).in_step(verb, verb_token);
    let is_alike = before.is_none_or(|before| before.kind == discriminant(&command));
    if is_taken_over && !is_alike {
        return Err(at(GrammarErrorKind::reason("does not continue the previous step; begin it with a verb")));
    }
    match too_long(&command, context.rules.limits) {
        Some(kind) => Err(at(GrammarErrorKind::reason(kind))),
        None => Ok((verb, command)),
    }
}

/// Only an unmistakable reference to an element may omit the verb. Any other word could be an unknown verb.
fn may_stand_alone(first: &Token<'_>) -> bool {
    first.is_quote() || ["the", "css", "ref", "text", "all"].iter().any(|word| first.is(word))
}

/// Returns an error for a command that exceeds the limits of its operation, before any command runs.
fn too_long(command: &Command, limits: &Limits) -> Option<String> {
    let max = |what: &str, text: &str, max: usize| {
        (text.chars().count() > max).then(|| format!("has {what} of more than {max} characters"))
    };
    let target = |sought: &ElementQuery| match sought {
        ElementQuery::Css(selector) => max("a selector", selector, limits.selector_chars),
        ElementQuery::Described { .. } | ElementQuery::Ref(_) => None,
    };
    match command {
        Command::Navigate { url } => max("an address", url, limits.url_chars),
        Command::Tap { target: sought }
        | Command::DoubleTap { target: sought }
        | Command::LongPress { target: sought }
        | Command::Hover { target: sought }
        | Command::Check { target: sought, .. }
        | Command::Select { target: sought, .. }
        | Command::Wait { condition: WaitCondition::Visible(sought) | WaitCondition::Hidden(sought) } => target(sought),
        Command::Type { target: sought, value } | Command::Fill { target: sought, value } => {
            target(sought).or_else(|| max("a text", value, limits.type_text_chars))
        }
        Command::Upload { target: sought, file } => {
            target(sought).or_else(|| max("a file name", file, limits.locator_chars))
        }
        Command::Press { key } => max("a key", key, limits.press_key_chars),
        Command::Drag { target: sought, to } => target(sought).or_else(|| match to {
            DragEnd::Element(end) => target(end),
            DragEnd::By { .. } => None,
        }),
        Command::Dialog { text, .. } => max("a text", text.as_deref()?, limits.type_text_chars),
        Command::SwitchPage { page: PageQuery::Words(words) }
        | Command::ClosePage { page: Some(PageQuery::Words(words)) } => max("a name", words, limits.locator_chars),
        Command::Scroll { target: sought, .. } | Command::Swipe { target: sought, .. } => {
            sought.as_ref().and_then(target)
        }
        Command::Wait { condition: WaitCondition::Url(pattern) } => {
            max("a regular expression", pattern, limits.pattern_chars)
        }
        Command::Extract { items } => items.iter().find_map(|item| {
            let name = max("a name", &item.name, limits.extraction_name_chars);
            name.or_else(|| max("an attribute", item.attribute.as_deref()?, limits.extraction_name_chars))
                .or_else(|| target(&item.target))
        }),
        Command::Wait { condition: WaitCondition::Time { .. } | WaitCondition::Download | WaitCondition::Page }
        | Command::Capture { .. }
        | Command::SwitchPage { .. }
        | Command::ClosePage { .. }
        | Command::SetLocation { .. }
        | Command::Back
        | Command::Forward
        | Command::Reload => None,
    }
}
