//! The steps of a turn's plan, which customers know as its intents (contract: agents 16 to 18).
//!
//! A step is carried out by one operation on the driver session. Everything about it that a page or a customer has said is sealed.

use std::error::Error;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Sealer;
use super::carrying::Waiting;
use super::hiding::HIDDEN;
use super::texts::TextOrigins;
use super::typed::{MOST_BYTES, Typed, TypedTexts};
use super::wishes::{Sought, Wish, WishedCondition};
use crate::ids::{AgentSessionId, IntentId, StepId, TurnId};
use crate::operations::StoredResult;

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum StepStatus {
    /// It has not begun.
    Planned,
    /// It is not run before somebody has approved of it.
    NeedsApproval,
    /// It is under way.
    Running,
    /// It was done.
    Done,
    /// It was not done, or nobody knows.
    Failed,
    /// It was left out, because of what came before it.
    Skipped,
}

/// A step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its id, by which it is approved.
    pub id: StepId,
    /// What is wanted.
    pub wish: Wish,
    /// Where it stands.
    pub status: StepStatus,
    /// Whether it submits data, as far as that is known.
    pub needs_approval: bool,
    /// Where it may enter its text without approval; `None` when that is anywhere.
    pub text_origins: Option<TextOrigins>,
    /// What carries it out.
    pub operation: IntentId,
    /// What was found for it: an element for each that it is about, in their order.
    pub shown: Vec<Shown>,
    /// What it came to.
    pub end: StepEnd,
}

/// An element, as it was shown to whoever approves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// What runs. Of a step that is about no element it is empty.
    pub selector: String,
    /// What it is, in our words.
    pub description: String,
    /// Another when the element is another.
    pub fingerprint: String,
    /// Of its page.
    pub origin: String,
}

/// What a step came to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StepEnd {
    /// The operation's own result, without a capture's content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Step {
    /// A step that is planned.
    #[must_use]
    pub fn planned(wish: Wish) -> Self {
        Self {
            id: StepId::generate(),
            wish,
            status: StepStatus::Planned,
            needs_approval: false,
            text_origins: None,
            operation: IntentId::generate(),
            shown: Vec::new(),
            end: StepEnd::default(),
        }
    }

    /// Notes that it failed.
    pub fn fail(&mut self, error: impl Into<String>) {
        self.status = StepStatus::Failed;
        self.end.error = Some(error.into());
    }

    /// What customers see of it.
    #[must_use]
    pub fn public(self) -> Intent {
        let mut about = Map::new();
        let shown = |at: usize| self.shown.get(at);
        match &self.wish {
            Wish::Navigate { url } => drop(about.insert("url".to_owned(), url.as_str().into())),
            Wish::Tap { target } | Wish::Check { target, .. } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
            }
            Wish::Type { target, .. } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("value".to_owned(), HIDDEN.into());
            }
            Wish::Press { key } => {
                about.insert("key".to_owned(), key.as_str().into());
                if let Some(focused) = shown(0).filter(|focused| !focused.selector.is_empty()) {
                    about.insert("target".to_owned(), element(focused));
                }
            }
            Wish::Select { target, option } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("option".to_owned(), option.as_str().into());
            }
            Wish::Scroll { delta_x, delta_y, target } => {
                about.insert("delta_x".to_owned(), (*delta_x).into());
                about.insert("delta_y".to_owned(), (*delta_y).into());
                if let Some(target) = target {
                    about.insert("target".to_owned(), target_of(target, shown(0)));
                }
            }
            Wish::Wait { condition } => drop(about.insert("condition".to_owned(), condition_of(condition, shown(0)))),
            Wish::Capture { capture } => drop(about.insert("capture".to_owned(), capture.name().into())),
            Wish::Extract { items } => {
                let mut shown = self.shown.iter();
                let items = items.iter().map(|item| {
                    let found = if item.is_one_in_words() { shown.next() } else { None };
                    let target = target_of(&item.target, found);
                    json!({"name": item.name, "target": target, "attribute": item.attribute, "list": item.list})
                });
                about.insert("items".to_owned(), items.collect());
            }
            Wish::Back | Wish::Reload => {}
        }
        Intent {
            id: self.id,
            kind: kind(&self.wish),
            about,
            needs_approval: self.needs_approval,
            status: self.status,
            result: self.end.result,
            error: self.end.error,
        }
    }
}

/// What a wish is called.
#[must_use]
pub fn kind(wish: &Wish) -> &'static str {
    match wish {
        Wish::Navigate { .. } => "navigate",
        Wish::Tap { .. } | Wish::Check { .. } => "tap",
        Wish::Type { .. } => "type",
        Wish::Press { .. } => "press",
        Wish::Select { .. } => "select",
        Wish::Scroll { .. } => "scroll",
        Wish::Wait { .. } => "wait",
        Wish::Capture { .. } => "capture",
        Wish::Extract { .. } => "extract",
        Wish::Back => "back",
        Wish::Reload => "reload",
    }
}

/// The kinds of steps.
pub const KINDS: [&str; 11] =
    ["navigate", "tap", "type", "press", "select", "scroll", "wait", "capture", "extract", "back", "reload"];

/// In words what is sought, before anybody has looked.
#[must_use]
pub fn describe(sought: &Sought) -> String {
    match sought {
        Sought::Css(selector) => selector.clone(),
        Sought::Described { role: Some(role), words } if words.is_empty() => role.clone(),
        Sought::Described { role, words } => {
            let words = Value::from(words.as_str());
            role.as_ref().map_or_else(|| words.to_string(), |role| format!("{role} {words}"))
        }
        Sought::Ref(reference) => reference.clone(),
    }
}

fn target_of(sought: &Sought, shown: Option<&Shown>) -> Value {
    let selector = match sought {
        Sought::Css(selector) => Some(selector.as_str()),
        Sought::Described { .. } | Sought::Ref(_) => None,
    };
    shown.map_or_else(|| json!({"selector": selector, "description": describe(sought)}), element)
}

fn element(shown: &Shown) -> Value {
    json!({"selector": shown.selector, "description": shown.description})
}

fn condition_of(condition: &WishedCondition, shown: Option<&Shown>) -> Value {
    match condition {
        WishedCondition::Visible(sought) => json!({"kind": "selector", "target": target_of(sought, shown)}),
        WishedCondition::Hidden(sought) => json!({"kind": "selector_hidden", "target": target_of(sought, shown)}),
        WishedCondition::Url(pattern) => json!({"kind": "url_matches", "pattern": pattern}),
        WishedCondition::Time { ms } => json!({"kind": "time", "ms": ms}),
    }
}

/// A step of a plan
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentIntent, example = json!({
    "id": "step_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "kind": "tap",
    "target": {"selector": "#sign-in", "description": "button \"Sign in\""}, "needs_approval": false, "status": "done",
    "result": {"ok": true, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}, "error": null,
}))]
pub struct Intent {
    /// Its id, by which it is approved
    #[schema(value_type = String)]
    pub id: StepId,
    /// What it does
    pub kind: &'static str,
    /// What it does that to, and with what; a text that is typed is never shown
    #[serde(flatten)]
    #[schema(value_type = Object)]
    about: Map<String, Value>,
    /// Whether it submits data, and is not run before somebody approves of it
    pub needs_approval: bool,
    /// Where it stands
    #[schema(value_type = String)]
    pub status: StepStatus,
    /// The operation's own result
    #[schema(value_type = Option<Object>, required = true)]
    pub result: Option<Box<RawValue>>,
    /// Why it failed
    #[schema(required = true)]
    pub error: Option<String>,
}

impl Intent {
    /// Hides what was typed, wherever a page has given it back. What somebody asked to read stays.
    ///
    /// # Errors
    /// When its result is no JSON.
    pub(super) fn hide(&mut self, typed: &Typed) -> sqlx::Result<()> {
        let mut about = Value::Object(std::mem::take(&mut self.about));
        typed.hide_members(&mut about);
        if let Value::Object(about) = about {
            self.about = about;
        }
        self.error = self.error.as_ref().map(|error| typed.hide(error));
        if self.kind != "extract"
            && let Some(result) = &mut self.result
        {
            let mut whole = serde_json::from_str(result.get()).map_err(unreadable)?;
            typed.hide_members(&mut whole);
            *result = serde_json::value::to_raw_value(&whole).map_err(unreadable)?;
        }
        Ok(())
    }

    /// Puts the content of a capture into its result.
    ///
    /// # Errors
    /// When its result is none of a capture.
    pub(super) fn put_content(&mut self, content: Option<Vec<u8>>) -> sqlx::Result<()> {
        let Some(content) = content else { return Ok(()) };
        let Some(json) = self.result.take() else { return Ok(()) };
        let whole = StoredResult { json, content: Some(content) }.into_body().map_err(unreadable)?;
        let whole = String::from_utf8(whole).map_err(unreadable)?;
        self.result = Some(RawValue::from_string(whole).map_err(unreadable)?);
        Ok(())
    }
}

fn unreadable(error: impl Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// Texts of an agent session that are hidden wherever they come back: the last ones that there were to type. Those of them are read that have
/// [`MOST_BYTES`] together, sealed; with more than these, everything is hidden.
const MOST_TYPED: i64 = 1_000;

/// What there was to type in an agent session, as it is stored.
#[derive(Debug, Default)]
pub(crate) struct SealedTexts {
    steps: Vec<(StepId, Vec<u8>)>,
    too_many: bool,
}

/// What there was to type in an agent session.
///
/// # Errors
/// When the database fails.
pub(crate) async fn typed(conn: &mut PgConnection, session: AgentSessionId) -> sqlx::Result<SealedTexts> {
    let rows = sqlx::query!(
        r#"select id as "id!: StepId", case when bytes <= $3 then sealed_wish end as sealed_wish
           from (select id, sealed_wish, sum(octet_length(sealed_wish)) over (order by turn_id desc, position desc) as bytes
                 from (select id, sealed_wish, turn_id, position from agent_steps
                       where agent_session_id = $1 and kind = 'type'
                       order by turn_id desc, position desc limit $2) newest) summed"#,
        session as _,
        MOST_TYPED,
        i64::from(MOST_BYTES),
    )
    .fetch_all(conn)
    .await?;
    let too_many = rows.iter().any(|row| row.sealed_wish.is_none());
    let steps = rows.into_iter().filter_map(|row| Some((row.id, row.sealed_wish?)));
    Ok(SealedTexts { steps: steps.collect(), too_many })
}

impl SealedTexts {
    /// About how many bytes are worked on to search for them: all spellings of them.
    pub(crate) fn weight(&self) -> usize {
        self.steps.iter().map(|(_, sealed)| sealed.len()).sum::<usize>() * 16
    }

    /// What hides them. This may take long.
    pub(crate) fn open(&self, sealer: &Sealer) -> sqlx::Result<Typed> {
        let mut typed = TypedTexts { too_many: self.too_many, ..TypedTexts::default() };
        if !typed.too_many {
            for (id, sealed) in &self.steps {
                if let Wish::Type { value, .. } = sealer.open(&id.to_string(), sealed)? {
                    typed.texts.push(value);
                }
            }
        }
        Ok(Typed::new(&typed))
    }
}

/// What is kept of a step besides what is wanted, sealed.
pub(super) struct Sealed {
    pub(super) shown: Option<Vec<u8>>,
    pub(super) end: Option<Vec<u8>>,
}

pub(super) fn seal(sealer: &Sealer, step: &Step) -> sqlx::Result<Sealed> {
    let id = step.id.to_string();
    let has_ended = step.end.result.is_some() || step.end.error.is_some();
    Ok(Sealed {
        shown: (!step.shown.is_empty()).then(|| sealer.seal(&id, &step.shown)).transpose()?,
        end: has_ended.then(|| sealer.seal(&id, &step.end)).transpose()?,
    })
}

/// Begins a turn with the steps of its own plan. `false` when somebody else has begun or ended it.
pub(super) async fn plan(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &Waiting,
    said: &[u8],
    steps: &[Step],
) -> sqlx::Result<bool> {
    let (ids, operations) = ids(steps);
    let (kinds, wishes) = wishes(sealer, steps)?;
    sqlx::query_scalar!(
        r#"with begun as (
               update agent_turns set status = 'running', started_at = now(), sealed_said = $3
               where id = $1 and status = 'queued' returning id
           ), left_out as (
               update agent_steps s set status = 'skipped'
               from begun where agent_session_id = $2 and turn_id <> $1 and s.status in ('needs_approval', 'planned')
           ), planned as (
               insert into agent_steps (id, turn_id, agent_session_id, position, kind, operation_id, sealed_wish)
               select step.id, $1, $2, position::integer, kind, operation, wish
               from begun, unnest($4::uuid[], $5::uuid[], $6::text[], $7::bytea[]) with ordinality
                    as step (id, operation, kind, wish, position)
           )
           select exists (select from begun)
                  or exists (select from agent_steps where turn_id = $1 and operation_id = any($5)) as "begun!""#,
        turn.id as _,
        turn.session as _,
        said,
        &ids,
        &operations,
        &kinds,
        &wishes,
    )
    .fetch_one(conn)
    .await
}

/// Leaves out what of other plans still waited for approval: there is another now.
pub(super) async fn leave_out(conn: &mut PgConnection, turn: &Waiting) -> sqlx::Result<()> {
    sqlx::query!(
        "update agent_steps set status = 'skipped'
         where agent_session_id = $1 and turn_id <> $2 and status in ('needs_approval', 'planned')",
        turn.session as _,
        turn.id as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes steps behind the `before` that the turn's plan has.
pub(super) async fn append(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &Waiting,
    before: usize,
    steps: &[Step],
) -> sqlx::Result<()> {
    let (ids, operations) = ids(steps);
    let (kinds, wishes) = wishes(sealer, steps)?;
    let approvals: Vec<_> = steps.iter().map(|step| step.needs_approval).collect();
    let origins = steps
        .iter()
        .map(|step| step.text_origins.as_ref().map(|origins| sealer.seal(&step.id.to_string(), origins)).transpose());
    let origins: Vec<_> = origins.collect::<sqlx::Result<_>>()?;
    sqlx::query!(
        "insert into agent_steps
             (id, turn_id, agent_session_id, position, kind, operation_id, needs_approval, sealed_wish, sealed_text_origins)
         select id, $6, $7, $8 + position::integer, kind, operation, asked, wish, origins
         from unnest($1::uuid[], $2::text[], $3::uuid[], $4::boolean[], $5::bytea[], $9::bytea[]) with ordinality
              as step (id, kind, operation, asked, wish, origins, position)
         on conflict (id) do nothing",
        &ids,
        &kinds,
        &operations,
        &approvals,
        &wishes,
        turn.id as _,
        turn.session as _,
        i32::try_from(before).unwrap_or(i32::MAX),
        &origins as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Begins a turn with the steps of the plan that it approves of. What was held back has been tried: it is carried out by another
/// operation now. `false` when somebody else has begun or ended the turn.
pub(super) async fn take_over(
    conn: &mut PgConnection,
    turn: &Waiting,
    said: &[u8],
    steps: &[Step],
) -> sqlx::Result<bool> {
    let (ids, operations) = ids(steps);
    sqlx::query_scalar!(
        r#"with begun as (
               update agent_turns set status = 'running', started_at = now(), sealed_said = $2
               where id = $1 and status = 'queued' returning id
           ), taken as (
               update agent_steps s set turn_id = $1, status = 'planned', operation_id = step.operation
               from begun, unnest($3::uuid[], $4::uuid[]) as step (id, operation) where s.id = step.id
           )
           select exists (select from begun)
                  or exists (select from agent_steps where turn_id = $1 and operation_id = any($4)) as "begun!""#,
        turn.id as _,
        said,
        &ids,
        &operations,
    )
    .fetch_one(conn)
    .await
}

/// What steps are called, and what is wanted of them, sealed: a column each.
fn wishes(sealer: &Sealer, steps: &[Step]) -> sqlx::Result<(Vec<String>, Vec<Vec<u8>>)> {
    let column = |step: &Step| Ok((kind(&step.wish).to_owned(), sealer.seal(&step.id.to_string(), &step.wish)?));
    steps.iter().map(column).collect::<sqlx::Result<Vec<_>>>().map(|columns| columns.into_iter().unzip())
}

fn ids(steps: &[Step]) -> (Vec<Uuid>, Vec<Uuid>) {
    steps.iter().map(|step| (step.id.as_uuid(), step.operation.as_uuid())).unzip()
}

/// How steps stand, a column each.
pub(super) struct StepColumns {
    pub(super) ids: Vec<Uuid>,
    pub(super) statuses: Vec<String>,
    pub(super) approvals: Vec<bool>,
    pub(super) shown: Vec<Option<Vec<u8>>>,
    pub(super) ends: Vec<Option<Vec<u8>>>,
}

impl StepColumns {
    pub(super) fn of(sealer: &Sealer, steps: &[Step]) -> sqlx::Result<Self> {
        let columns: Vec<_> = steps.iter().map(|step| seal(sealer, step)).collect::<Result<_, _>>()?;
        let (shown, ends) = columns.into_iter().map(|column| (column.shown, column.end)).unzip();
        Ok(Self {
            ids: ids(steps).0,
            statuses: steps.iter().map(|step| <&str>::from(step.status).to_owned()).collect(),
            approvals: steps.iter().map(|step| step.needs_approval).collect(),
            shown,
            ends,
        })
    }

    /// How much is kept of them.
    pub(super) fn bytes(&self) -> usize {
        self.shown.iter().chain(&self.ends).flatten().map(Vec::len).sum()
    }
}

/// A step as it is stored, with the content of its capture if that was asked for and is kept still.
#[derive(Debug)]
pub(super) struct SealedStep {
    pub(super) turn: TurnId,
    id: StepId,
    status: StepStatus,
    needs_approval: bool,
    operation: IntentId,
    sealed_wish: Vec<u8>,
    sealed_shown: Option<Vec<u8>>,
    sealed_result: Option<Vec<u8>>,
    sealed_text_origins: Option<Vec<u8>>,
    content: Option<Vec<u8>>,
    lost: bool,
}

/// Steps of turns, with the content of captures as long as that is kept. In the order of their turns and plans.
pub(super) async fn of_turns(
    conn: &mut PgConnection,
    turns: &[TurnId],
    with_content: bool,
) -> sqlx::Result<Vec<SealedStep>> {
    let turns: Vec<_> = turns.iter().map(TurnId::as_uuid).collect();
    let rows = sqlx::query!(
        r#"select s.id, s.turn_id, s.status as "status: StepStatus", s.needs_approval, s.operation_id, s.sealed_wish,
                  s.sealed_shown, s.sealed_result, s.sealed_text_origins, case when $2 and s.kind = 'capture' then i.content end as content,
                  t.lost
           from agent_steps s join agent_turns t on t.id = s.turn_id left join intents i on i.id = s.operation_id
           where s.turn_id = any($1) order by s.turn_id, s.position"#,
        &turns,
        with_content,
    )
    .fetch_all(conn)
    .await?;
    let steps = rows.into_iter().map(|row| SealedStep {
        turn: row.turn_id,
        id: row.id,
        status: row.status,
        needs_approval: row.needs_approval,
        operation: row.operation_id,
        sealed_wish: row.sealed_wish,
        sealed_shown: row.sealed_shown,
        sealed_result: row.sealed_result,
        sealed_text_origins: row.sealed_text_origins,
        content: row.content,
        lost: row.lost,
    });
    Ok(steps.collect())
}

impl SealedStep {
    /// How many bytes there are of it.
    pub(super) fn bytes(&self) -> usize {
        let parts =
            [&self.sealed_shown, &self.sealed_result, &self.sealed_text_origins, &self.content].into_iter().flatten();
        self.sealed_wish.len() + parts.map(Vec::len).sum::<usize>()
    }

    /// The step, and the content of its capture.
    pub(super) fn open(self, sealer: &Sealer) -> sqlx::Result<(Step, Option<Vec<u8>>)> {
        let id = self.id.to_string();
        let shown = self.sealed_shown.map(|sealed| sealer.open(&id, &sealed)).transpose()?.unwrap_or_default();
        let text_origins = self.sealed_text_origins.map(|sealed| sealer.open(&id, &sealed)).transpose()?;
        let end = self.sealed_result.map(|sealed| sealer.open::<StepEnd>(&id, &sealed)).transpose()?;
        let mut step = Step {
            id: self.id,
            wish: sealer.open(&id, &self.sealed_wish)?,
            status: self.status,
            needs_approval: self.needs_approval,
            text_origins,
            operation: self.operation,
            shown,
            end: end.unwrap_or_default(),
        };
        if self.lost && step.status == StepStatus::Failed && step.end.error.is_none() {
            step.end.error = Some("the worker died, and nobody knows what became of it".to_owned());
        }
        Ok((step, self.content))
    }
}
