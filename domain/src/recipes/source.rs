//! What recipes are made of: the steps that an agent session has carried out.

use sqlx::PgConnection;

use super::steps::{self, Condition, Element, Item, Step};
use crate::agents::Sealer;
use crate::agents::steps::{Shown, describe};
use crate::agents::wishes::{Sought, Wish, WishedCondition, WishedItem};
use crate::ids::AgentSessionId;
use crate::limits::Limits;
use crate::operations::{self, ROLES, Target};

/// Why the steps of an agent session cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is none that the account may see.
    #[error("there is no agent session with this id")]
    NoAgentSession,
    /// There are too many for a recipe.
    #[error("the agent session has more steps than a recipe may have, which is {0}")]
    TooMany(u32),
    /// The database failed, or they cannot be opened.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The steps of plans that were done, in the order in which they were (contract: recipes 5).
///
/// # Errors
/// When there are too many, or the database fails.
pub(super) async fn steps(
    conn: &mut PgConnection,
    of: AgentSessionId,
    sealer: &Sealer,
    limits: &Limits,
) -> Result<Vec<Step>, SourceError> {
    let rows = sqlx::query!(
        "select s.id, s.sealed_wish, s.sealed_shown from agent_steps s join agent_turns t on t.id = s.turn_id
         where s.agent_session_id = $1 and s.status = 'done' and t.kind = 'plan'
         order by s.turn_id, s.position limit $2",
        of as _,
        i64::from(limits.recipe_steps) + 1,
    )
    .fetch_all(conn)
    .await?;
    if rows.len() > limits.recipe_steps as usize {
        return Err(SourceError::TooMany(limits.recipe_steps));
    }
    let opened = rows.iter().map(|row| {
        let owner = row.id.to_string();
        let shown = row.sealed_shown.as_ref().map(|sealed| sealer.open(&owner, sealed)).transpose()?;
        Ok(step(sealer.open(&owner, &row.sealed_wish)?, shown.unwrap_or_default()))
    });
    opened.collect()
}

/// A wish as it was carried out, on the elements that were found for it, which come in the order in which it speaks of them.
fn step(wish: Wish, shown: Vec<Shown>) -> Step {
    let mut shown = shown.into_iter();
    match wish {
        Wish::Navigate { url } => Step::Navigate { url },
        Wish::Tap { target } | Wish::Check { target, .. } => Step::Tap(found(target, shown.next())),
        Wish::Type { target, value } => Step::Type { element: found(target, shown.next()), value },
        Wish::Press { key } => Step::Press { key },
        Wish::Select { target, option } => Step::Select { element: found(target, shown.next()), option },
        Wish::Scroll { delta_x, delta_y, target } => {
            Step::Scroll { delta_x, delta_y, target: target.map(|target| found(target, shown.next())) }
        }
        Wish::Wait { condition } => {
            let condition = match condition {
                WishedCondition::Visible(what) => Condition::Selector(sought(what, shown.next())),
                WishedCondition::Hidden(what) => Condition::SelectorHidden(sought(what, shown.next())),
                WishedCondition::Url(pattern) => Condition::UrlMatches { pattern },
                WishedCondition::Time { ms } => Condition::Time { ms },
            };
            Step::Wait { condition }
        }
        Wish::Capture { capture } => Step::Capture { capture },
        Wish::Extract { items } => {
            let item = |item: WishedItem| {
                let element = if item.is_one_in_words() { shown.next() } else { None };
                let WishedItem { name, target, attribute, list } = item;
                Item { name, sought: sought(target, element), attribute, list }
            };
            Step::Extract { items: items.into_iter().map(item).collect() }
        }
        Wish::Back => Step::Back,
        Wish::Reload => Step::Reload,
    }
}

/// The element that was found for what somebody said. What was said exactly need not have been looked for.
fn found(said: Sought, shown: Option<Shown>) -> Element {
    match (shown, said) {
        (Some(Shown { selector, description, .. }), _) => Element { selector, description },
        (None, Sought::Css(selector)) => Element { description: selector.clone(), selector },
        (None, said) => Element { selector: String::new(), description: describe(&said) },
    }
}

/// What an operation looked for itself: what had been found for it, or what somebody said.
fn sought(said: Sought, shown: Option<Shown>) -> steps::Sought {
    let description = describe(&said);
    let by = match (said, shown) {
        (Sought::Css(selector), _) => operations::Element::Selector(selector),
        (_, Some(Shown { selector, description, .. })) => {
            return steps::Sought { by: operations::Element::Selector(selector), description };
        }
        (Sought::Ref(reference), None) => operations::Element::Target(Target::Ref(reference)),
        (Sought::Described { role: Some(role), words }, None) if ROLES.contains(&role.as_str()) => {
            operations::Element::Target(Target::Role { role, name: Some(words).filter(|words| !words.is_empty()) })
        }
        (Sought::Described { words, .. }, None) => operations::Element::Target(Target::Text(words)),
    };
    steps::Sought { by, description }
}
