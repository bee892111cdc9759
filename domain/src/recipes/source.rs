//! Reads the completed steps of an agent session and converts them to the steps of a recipe.

use kitfleet_types::commands::{Command, DragEnd, ElementQuery, ExtractItem, WaitCondition};
use kitfleet_types::ids::{AgentSessionId, StepId};
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{self, ROLES, Target};
use sqlx::PgConnection;

use super::steps::{self, Condition, Element, Item, Page, Step};
use crate::agents::Sealer;
use crate::agents::steps::{self as agent_steps, SealedTexts, ShownElement, describe};
use crate::agents::typed::Typed;

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("there is no agent session with this id")]
    NoAgentSession,
    #[error("the agent session has more than {0} steps, the maximum of a recipe")]
    TooMany(u32),
    #[error("the steps of the agent session have {bytes} bytes; a recipe may have at most {limit}")]
    TooLarge { bytes: usize, limit: usize },
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Stored bytes per byte of the recipe. Stored elements also have a fingerprint and the origin of their page, which the
/// recipe drops.
const STORED: usize = 16;

/// The completed steps of plans in their stored form, with the text typed in their agent session.
pub struct SealedSteps {
    steps: Vec<(StepId, Vec<u8>, Option<Vec<u8>>)>,
    typed: SealedTexts,
}

/// Returns the completed steps in order of execution (contract: recipes 5).
pub(super) async fn steps(
    conn: &mut PgConnection,
    of: AgentSessionId,
    limits: &Limits,
) -> Result<SealedSteps, SourceError> {
    let stored = limits.recipe_bytes.saturating_mul(STORED);
    let rows = sqlx::query!(
        r#"select id as "id!: StepId", case when bytes <= $3 then sealed_wish end as sealed_wish,
                  case when bytes <= $3 then sealed_shown end as sealed_shown, bytes as "bytes!"
           from (select id, sealed_wish, sealed_shown,
                        sum(octet_length(sealed_wish) + coalesce(octet_length(sealed_shown), 0)) over (order by turn_id, position) as bytes
                 from (select s.id, s.sealed_wish, s.sealed_shown, s.turn_id, s.position
                       from agent_steps s join agent_turns t on t.id = s.turn_id
                       where s.agent_session_id = $1 and s.status = 'done' and t.kind = 'plan'
                       order by s.turn_id, s.position limit $2) done) summed
           order by bytes"#,
        of as _,
        i64::from(limits.recipe_steps) + 1,
        i64::try_from(stored).unwrap_or(i64::MAX),
    )
    .fetch_all(&mut *conn)
    .await?;
    if rows.len() > limits.recipe_steps as usize {
        return Err(SourceError::TooMany(limits.recipe_steps));
    }
    let mut steps = Vec::with_capacity(rows.len());
    let bytes = rows.last().map_or(0, |row| usize::try_from(row.bytes).unwrap_or(usize::MAX));
    for row in rows {
        let Some(sealed_wish) = row.sealed_wish else {
            return Err(SourceError::TooLarge { bytes, limit: limits.recipe_bytes });
        };
        steps.push((row.id, sealed_wish, row.sealed_shown));
    }
    let typed = agent_steps::typed(conn, of).await?;
    Ok(SealedSteps { steps, typed })
}

impl SealedSteps {
    #[must_use]
    pub fn weight(&self) -> usize {
        let bytes =
            |(_, command, shown): &(_, Vec<u8>, Option<Vec<u8>>)| command.len() + shown.as_ref().map_or(0, Vec::len);
        self.steps.iter().map(bytes).sum::<usize>() + self.typed.weight()
    }

    /// Slow for large inputs: run it off the async runtime.
    pub fn open(self, sealer: &Sealer) -> sqlx::Result<Vec<Step>> {
        let typed = self.typed.open(sealer)?;
        let steps = self.steps.into_iter().map(|(id, sealed_wish, sealed_shown)| {
            let owner = id.to_string();
            let command = sealer.open(&owner, &sealed_wish)?;
            let shown: Option<Vec<ShownElement>> =
                sealed_shown.map(|sealed| sealer.open(&owner, &sealed)).transpose()?;
            let shown = shown.unwrap_or_default().into_iter().map(|shown| hidden(shown, &command, &typed)).collect();
            Ok(step(command, shown))
        });
        // A recipe has no files, so steps that upload one are left out.
        steps.filter_map(Result::transpose).collect()
    }
}

/// Contract: recipes 17. A selector that the command itself contains stays unchanged, so that it still matches.
fn hidden(shown: ShownElement, command: &Command, typed: &Typed) -> ShownElement {
    let typed_selector = match command {
        Command::Tap { target: ElementQuery::Css(typed_selector) }
        | Command::DoubleTap { target: ElementQuery::Css(typed_selector) }
        | Command::LongPress { target: ElementQuery::Css(typed_selector) }
        | Command::Hover { target: ElementQuery::Css(typed_selector) }
        | Command::Drag { target: ElementQuery::Css(typed_selector), .. }
        | Command::Fill { target: ElementQuery::Css(typed_selector), .. }
        | Command::Swipe { target: Some(ElementQuery::Css(typed_selector)), .. }
        | Command::Check { target: ElementQuery::Css(typed_selector), .. }
        | Command::Type { target: ElementQuery::Css(typed_selector), .. }
        | Command::Select { target: ElementQuery::Css(typed_selector), .. }
        | Command::Scroll { target: Some(ElementQuery::Css(typed_selector)), .. } => Some(typed_selector),
        _ => None,
    };
    let selector =
        if typed_selector == Some(&shown.selector) { shown.selector } else { typed.hide_in_selector(&shown.selector) };
    ShownElement { selector, description: typed.hide(&shown.description), ..shown }
}

/// The elements are in the order in which the command refers to them. `None` for a command that a recipe cannot have.
fn step(command: Command, shown: Vec<ShownElement>) -> Option<Step> {
    let mut shown = shown.into_iter();
    Some(match command {
        Command::Navigate { url } => Step::Navigate { url },
        Command::Tap { target } => Step::Tap(found(target, shown.next())),
        Command::DoubleTap { target } => Step::DoubleTap(found(target, shown.next())),
        Command::LongPress { target } => Step::LongPress(found(target, shown.next())),
        Command::Hover { target } => Step::Hover(found(target, shown.next())),
        Command::Check { target, checked } => Step::Check { element: found(target, shown.next()), checked },
        Command::Fill { target, value } => Step::Fill { element: found(target, shown.next()), value },
        Command::Drag { target, to } => {
            let dragged = shown.next();
            let to = match to {
                DragEnd::Element(end) => steps::DragEnd::Element(found(end, shown.next())),
                DragEnd::By { delta_x, delta_y } => {
                    let [x, y] = dragged.as_ref().map(|dragged| dragged.size.map(i64::from)).unwrap_or_default();
                    // A side of n pixels has its middle at 5 n tenths.
                    let (x, y) = (x * 5, y * 5);
                    steps::DragEnd::Path([(x, y), (x + i64::from(delta_x) * 10, y + i64::from(delta_y) * 10)])
                }
            };
            Step::Drag { element: found(target, dragged), to }
        }
        Command::Swipe { direction, distance, target } => {
            Step::Swipe { direction, distance, target: target.map(|target| found(target, shown.next())) }
        }
        Command::Dialog { accept, text } => Step::Dialog { accept, text },
        Command::SwitchPage { .. } => Step::ActivatePage(page(shown.next()?)?),
        Command::ClosePage { .. } => Step::ClosePage(page(shown.next()?)?),
        Command::SetLocation { latitude, longitude } => Step::SetLocation { latitude, longitude },
        Command::Type { target, value } => Step::Type { element: found(target, shown.next()), value },
        Command::Press { key } => Step::Press { key },
        Command::Select { target, option } => Step::Select { element: found(target, shown.next()), option },
        Command::Scroll { delta_x, delta_y, target } => {
            Step::Scroll { delta_x, delta_y, target: target.map(|target| found(target, shown.next())) }
        }
        Command::Wait { condition } => {
            let condition = match condition {
                WaitCondition::Visible(what) => Condition::Selector(sought(what, shown.next())),
                WaitCondition::Hidden(what) => Condition::SelectorHidden(sought(what, shown.next())),
                WaitCondition::Url(pattern) => Condition::UrlMatches { pattern },
                WaitCondition::Time { ms } => Condition::Time { ms },
                WaitCondition::Download => Condition::Download,
                WaitCondition::Page => Condition::Page,
            };
            Step::Wait { condition }
        }
        Command::Capture { capture } => Step::Capture { capture },
        Command::Extract { items } => {
            let item = |item: ExtractItem| {
                let element = if item.names_one_element() { shown.next() } else { None };
                let ExtractItem { name, target, attribute, list } = item;
                Item { name, sought: sought(target, element), attribute, list }
            };
            Step::Extract { items: items.into_iter().map(item).collect() }
        }
        Command::Back => Step::Back,
        Command::Forward => Step::Forward,
        Command::Reload => Step::Reload,
        Command::Upload { .. } => return None,
    })
}

/// Its position is kept where an element has its fingerprint.
fn page(shown: ShownElement) -> Option<Page> {
    let ShownElement { fingerprint, description, .. } = shown;
    Some(Page { position: fingerprint.parse().ok()?, description })
}

/// The query itself if none was stored: a CSS selector needs no resolution.
fn found(query: ElementQuery, shown: Option<ShownElement>) -> Element {
    match (shown, query) {
        (Some(ShownElement { selector, description, .. }), _) => Element { selector, description },
        (None, ElementQuery::Css(selector)) => Element { description: selector.clone(), selector },
        (None, query) => Element { selector: String::new(), description: describe(&query) },
    }
}

/// For an operation that searches by itself: the resolved element, or else the command's query.
fn sought(query: ElementQuery, shown: Option<ShownElement>) -> steps::RecipeLocator {
    let description = describe(&query);
    let by = match (query, shown) {
        (ElementQuery::Css(selector), _) => operations::Element::Selector(selector),
        (_, Some(ShownElement { selector, description, .. })) => {
            return steps::RecipeLocator { by: operations::Element::Selector(selector), description };
        }
        (ElementQuery::Ref(reference), None) => operations::Element::Target(Target::Ref(reference)),
        (ElementQuery::Described { role: Some(role), words }, None) if ROLES.contains(&role.as_str()) => {
            operations::Element::Target(Target::Role { role, name: Some(words).filter(|words| !words.is_empty()) })
        }
        (ElementQuery::Described { words, .. }, None) => operations::Element::Target(Target::Text(words)),
    };
    steps::RecipeLocator { by, description }
}
