//! The deterministic decomposer: reads a message by a documented grammar (contract: agent-grammar).
//!
//! A message is cut into words and quoted texts, those at commas, ends of lines and the like into steps, and each step is read by
//! the rule of its verb. The words of all rules stand in tables (`vocabulary.rs`), from which the public documentation is made as
//! well. Each part is looked at a bounded number of times, so that reading takes time that is linear in the message.
//!
//! Whatever can be understood in more than one way is asked about: what acts on somebody's account does not guess. A message is
//! read as a whole or not at all.

mod addresses;
mod canonical;
mod complaints;
mod keys;
mod lexing;
#[cfg(test)]
mod properties;
mod steps;
mod targets;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

pub use self::canonical::print;
use self::complaints::{GrammarError, GrammarErrorKind};
use self::lexing::{Kind, Token};
use self::vocabulary::{FILLERS, StepSyntax};
pub use self::vocabulary::{KEYS, KeyName, MODIFIERS, NOUNS, Noun, VERBS, Verb};
use super::commands::{Command, ElementQuery, ParsedMessage, WaitCondition};
use crate::addresses::Destinations;
use crate::limits::Limits;

/// What a message may ask for.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'r> {
    /// Where a browser may be sent.
    pub destinations: &'r Destinations,
    /// What an operation may be given.
    pub limits: &'r Limits,
    /// Steps of a message.
    pub most_steps: usize,
    /// Characters of a message.
    pub most_characters: usize,
}

/// What a step is read with.
#[derive(Clone, Copy)]
struct Context<'r> {
    message: &'r str,
    rules: &'r Rules<'r>,
}

/// Reads a message. Nothing of it is to be done unless all of it was understood (contract: agent-grammar 1, 2).
#[must_use]
pub fn read(message: &str, rules: &Rules<'_>) -> ParsedMessage {
    let most = rules.most_characters;
    if message.chars().nth(most).is_some() {
        return ParsedMessage::Clarify { reply: format!("Nothing was done: a message has at most {most} characters.") };
    }
    match plan(Context { message, rules }) {
        Ok(plan) => ParsedMessage::Plan(plan),
        Err(complaint) => complaint.into_reading(message),
    }
}

/// The step before: its verb, what came of it, and whether the one that follows may do without a verb.
struct PreviousStep {
    verb: &'static Verb,
    kind: Discriminant<Command>,
}

fn plan(context: Context<'_>) -> Result<Vec<Command>, GrammarError> {
    let tokens = lexing::lex(context.message)?;
    let mut plan: Vec<Command> = Vec::new();
    let mut before: Option<PreviousStep> = None;
    // Whether all breaks since the step before were soft ones.
    let mut goes_on = false;
    for piece in tokens.chunk_by(|one, other| !is_break(one) && !is_break(other)) {
        if let [Token { kind: Kind::Break { soft }, .. }] = piece {
            goes_on = goes_on && *soft;
            continue;
        }
        let step = without_fillers(piece);
        let Some(first) = step.first() else { continue };
        if plan.len() == context.rules.most_steps {
            let trouble = GrammarErrorKind::says(format!("is one step too many: a message has at most {}", plan.len()));
            return Err(GrammarError::hidden(first.span.clone(), trouble));
        }
        let (verb, wish) = read_step(step, before.as_ref(), goes_on, context)?;
        before = Some(PreviousStep { verb, kind: discriminant(&wish) });
        goes_on = true;
        match (wish, plan.last_mut()) {
            // What is read in one breath is read at one time.
            (Command::Extract { items: more }, Some(Command::Extract { items })) if !begins_with_verb(step) => {
                items.extend(more);
            }
            (wish, _) => plan.push(wish),
        }
        if let Some(Command::Extract { items }) = plan.last() {
            let mut names = HashSet::new();
            if items.len() > context.rules.limits.extractions || !items.iter().all(|item| names.insert(&item.name)) {
                let trouble = GrammarErrorKind::says("uses a name twice; give another name after “as”");
                return Err(targets::complaint(step, trouble).in_step(verb, first));
            }
        }
    }
    if plan.is_empty() {
        return Err(GrammarError::hidden(0..0, GrammarErrorKind::says("contains no command")));
    }
    Ok(plan)
}

/// Whether a word is one of the grammar's own, and so says nothing of anybody.
#[must_use]
pub fn knows(word: &str) -> bool {
    vocabulary::has(word)
}

fn is_break(token: &Token<'_>) -> bool {
    matches!(token.kind, Kind::Break { .. })
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

/// A step by its own verb, or by that of the step before it, which then means the same kind of thing once more.
fn read_step<'m>(
    step: &'m [Token<'m>],
    before: Option<&PreviousStep>,
    goes_on: bool,
    context: Context<'_>,
) -> Result<(&'static Verb, Command), GrammarError> {
    let first = &step[0];
    let (verb, said, rest) = match (steps::verb(step), before) {
        (Some(verb), _) => verb,
        (None, Some(before)) if goes_on && may_stand_alone(first) => (before.verb, first, step),
        (None, Some(before)) if matches!(before.verb.act, StepSyntax::Type | StepSyntax::Fill) => {
            return Err(GrammarError::hidden(first.span.clone(), GrammarErrorKind::Unknown));
        }
        (None, _) => return Err(GrammarError::at(first.span.clone(), GrammarErrorKind::Unknown)),
    };
    let is_taken_over = rest.len() == step.len();
    let wish = steps::wish(verb, said, rest, context).map_err(|error| {
        let complaint = GrammarError::of(error).in_step(verb, said);
        // Such a step begins with what is typed.
        if is_taken_over { complaint.hiding_but(&(0..0)) } else { complaint }
    })?;
    let at = |trouble: GrammarErrorKind| GrammarError::hidden(said.span.clone(), trouble).in_step(verb, said);
    let is_alike = before.is_none_or(|before| before.kind == discriminant(&wish));
    if is_taken_over && !is_alike {
        return Err(at(GrammarErrorKind::says("does not continue the previous step; begin it with a verb")));
    }
    match too_long(&wish, context.rules.limits) {
        Some(trouble) => Err(at(GrammarErrorKind::says(trouble))),
        None => Ok((verb, wish)),
    }
}

/// Only what is clearly a thing needs no verb: anything else could be one that nobody knows.
fn may_stand_alone(first: &Token<'_>) -> bool {
    first.is_quote() || ["the", "css", "ref", "text", "all"].iter().any(|word| first.is(word))
}

/// What an operation would refuse, told before anything is done.
fn too_long(wish: &Command, limits: &Limits) -> Option<String> {
    let most = |what: &str, text: &str, most: usize| {
        (text.chars().count() > most).then(|| format!("has {what} of more than {most} characters"))
    };
    let target = |sought: &ElementQuery| match sought {
        ElementQuery::Css(selector) => most("a selector", selector, limits.selector_chars),
        ElementQuery::Described { .. } | ElementQuery::Ref(_) => None,
    };
    match wish {
        Command::Navigate { url } => most("an address", url, limits.url_chars),
        Command::Tap { target: sought }
        | Command::Check { target: sought, .. }
        | Command::Select { target: sought, .. }
        | Command::Wait { condition: WaitCondition::Visible(sought) | WaitCondition::Hidden(sought) } => target(sought),
        Command::Type { target: sought, value } => {
            target(sought).or_else(|| most("a text", value, limits.type_text_chars))
        }
        Command::Press { key } => most("a key", key, limits.press_key_chars),
        Command::Scroll { target: sought, .. } => sought.as_ref().and_then(target),
        Command::Wait { condition: WaitCondition::Url(pattern) } => {
            most("a regular expression", pattern, limits.pattern_chars)
        }
        Command::Extract { items } => items.iter().find_map(|item| {
            let name = most("a name", &item.name, limits.extraction_name_chars);
            name.or_else(|| most("an attribute", item.attribute.as_deref()?, limits.extraction_name_chars))
                .or_else(|| target(&item.target))
        }),
        Command::Wait { condition: WaitCondition::Time { .. } }
        | Command::Capture { .. }
        | Command::Back
        | Command::Reload => None,
    }
}
