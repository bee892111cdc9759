//! Steps of a turn's plan, which the API calls intents (contract: agents 16 to 18).
//!
//! One operation on the driver session performs a step. All texts of a step that come from a page or a customer are sealed.

use std::error::Error;

use kitfleet_types::commands::{Command, DragEnd, ElementQuery, PageQuery, WaitCondition};
use kitfleet_types::ids::{AgentSessionId, IntentId, StepId, TurnId};
use kitfleet_types::operations::{Point, StoredResult};
use kitfleet_types::redaction::MASK;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Sealer;
use super::queued_turn::QueuedTurn;
use super::texts::TextOrigins;
use super::typed::{MAX_BYTES, Typed, TypedTexts};
use crate::blocking::run_blocking;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum StepStatus {
    Planned,
    NeedsApproval,
    Running,
    Done,
    /// The step failed, or its outcome is unknown.
    Failed,
    /// The step was skipped, because of the outcome of an earlier step.
    Skipped,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub id: StepId,
    pub command: Command,
    pub status: StepStatus,
    /// The step is known to submit data.
    pub needs_approval: bool,
    /// `None`: no restriction.
    pub text_origins: Option<TextOrigins>,
    pub operation: IntentId,
    /// Elements found for the step, in the order of the command.
    pub shown: Vec<ShownElement>,
    pub end: StepEnd,
}

/// An element, a page or a dialog, as it was shown to the person who approves the step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownElement {
    /// CSS selector, or id of a page; empty if the step has neither.
    pub selector: String,
    pub description: String,
    /// Changes if the element or the dialog changes. Position of a page in the list of pages, counted from 1.
    pub fingerprint: String,
    pub origin: String,
    /// Width and height in CSS pixels.
    #[serde(default)]
    pub size: [u32; 2],
}

impl ShownElement {
    /// Points of a drag that begins in the middle of the element, from its top left corner.
    #[must_use]
    pub fn path(&self, delta_x: i32, delta_y: i32) -> [Point; 2] {
        let [x, y] = self.size.map(|side| f64::from(side) / 2.0);
        [Point { x, y }, Point { x: x + f64::from(delta_x), y: y + f64::from(delta_y) }]
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StepEnd {
    /// Result of the operation, without a capture's content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Step {
    #[must_use]
    pub fn planned(command: Command) -> Self {
        Self {
            id: StepId::generate(),
            command,
            status: StepStatus::Planned,
            needs_approval: false,
            text_origins: None,
            operation: IntentId::generate(),
            shown: Vec::new(),
            end: StepEnd::default(),
        }
    }

    pub fn fail(&mut self, error: impl Into<String>) {
        self.status = StepStatus::Failed;
        self.end.error = Some(error.into());
    }

    #[must_use]
    pub fn public(self) -> Intent {
        let mut about = Map::new();
        let shown = |at: usize| self.shown.get(at);
        match &self.command {
            Command::Navigate { url } => drop(about.insert("url".to_owned(), url.as_str().into())),
            Command::Tap { target } | Command::Hover { target } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
            }
            Command::DoubleTap { target } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("count".to_owned(), 2.into());
            }
            Command::LongPress { target } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("hold_ms".to_owned(), LONG_PRESS_MS.into());
            }
            Command::Check { target, checked } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("checked".to_owned(), (*checked).into());
            }
            Command::Type { target, .. } | Command::Fill { target, .. } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("value".to_owned(), MASK.into());
            }
            Command::Press { key } => {
                about.insert("key".to_owned(), key.as_str().into());
                if let Some(focused) = shown(0).filter(|focused| !focused.selector.is_empty()) {
                    about.insert("target".to_owned(), element(focused));
                }
            }
            Command::Select { target, option } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("option".to_owned(), option.as_str().into());
            }
            Command::Upload { target, file } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                about.insert("file".to_owned(), file.as_str().into());
            }
            Command::Drag { target, to } => {
                about.insert("target".to_owned(), target_of(target, shown(0)));
                match to {
                    DragEnd::Element(end) => drop(about.insert("to".to_owned(), target_of(end, shown(1)))),
                    DragEnd::By { delta_x, delta_y } => {
                        about.insert("delta_x".to_owned(), (*delta_x).into());
                        about.insert("delta_y".to_owned(), (*delta_y).into());
                    }
                }
            }
            Command::Swipe { direction, distance, target } => {
                about.insert("direction".to_owned(), json!(direction));
                about.extend(distance.map(|distance| ("distance".to_owned(), distance.into())));
                about.extend(target.as_ref().map(|target| ("target".to_owned(), target_of(target, shown(0)))));
            }
            Command::Dialog { accept, text } => {
                about.insert("accept".to_owned(), (*accept).into());
                about.extend(text.as_ref().map(|_| ("text".to_owned(), MASK.into())));
                about.extend(shown(0).map(|shown| ("dialog".to_owned(), shown.description.as_str().into())));
            }
            Command::SwitchPage { page } => drop(about.insert("page".to_owned(), page_of(Some(page), shown(0)))),
            Command::ClosePage { page } => drop(about.insert("page".to_owned(), page_of(page.as_ref(), shown(0)))),
            Command::SetLocation { latitude, longitude } => {
                about.insert("latitude".to_owned(), latitude.degrees().into());
                about.insert("longitude".to_owned(), longitude.degrees().into());
            }
            Command::Scroll { delta_x, delta_y, target } => {
                about.insert("delta_x".to_owned(), (*delta_x).into());
                about.insert("delta_y".to_owned(), (*delta_y).into());
                if let Some(target) = target {
                    about.insert("target".to_owned(), target_of(target, shown(0)));
                }
            }
            Command::Wait { condition } => {
                drop(about.insert("condition".to_owned(), condition_of(condition, shown(0))));
            }
            Command::Capture { capture } => drop(about.insert("capture".to_owned(), capture.name().into())),
            Command::Extract { items } => {
                let mut shown = self.shown.iter();
                let items = items.iter().map(|item| {
                    let found = if item.names_one_element() { shown.next() } else { None };
                    let target = target_of(&item.target, found);
                    json!({"name": item.name, "target": target, "attribute": item.attribute, "list": item.list})
                });
                about.insert("items".to_owned(), items.collect());
            }
            Command::Back | Command::Forward | Command::Reload => {}
        }
        Intent {
            id: self.id,
            kind: kind(&self.command),
            about,
            needs_approval: self.needs_approval,
            status: self.status,
            result: self.end.result,
            error: self.end.error,
        }
    }
}

#[must_use]
pub fn kind(command: &Command) -> &'static str {
    match command {
        Command::Navigate { .. } => "navigate",
        Command::Tap { .. } | Command::DoubleTap { .. } | Command::LongPress { .. } => "tap",
        Command::Check { .. } => "check",
        Command::Type { .. } => "type",
        Command::Fill { .. } => "fill",
        Command::Press { .. } => "press",
        Command::Select { .. } => "select",
        Command::Upload { .. } => "upload",
        Command::Drag { .. } => "drag",
        Command::Swipe { .. } => "swipe",
        Command::Hover { .. } => "hover",
        Command::Scroll { .. } => "scroll",
        Command::Wait { .. } => "wait",
        Command::Capture { .. } => "capture",
        Command::Extract { .. } => "extract",
        Command::Dialog { .. } => "dialog",
        Command::SwitchPage { .. } => "activate_page",
        Command::ClosePage { .. } => "close_page",
        Command::SetLocation { .. } => "set_location",
        Command::Back => "back",
        Command::Forward => "forward",
        Command::Reload => "reload",
    }
}

pub const KINDS: [&str; 22] = [
    "navigate",
    "tap",
    "check",
    "type",
    "fill",
    "press",
    "select",
    "upload",
    "drag",
    "swipe",
    "hover",
    "scroll",
    "wait",
    "capture",
    "extract",
    "dialog",
    "activate_page",
    "close_page",
    "set_location",
    "back",
    "forward",
    "reload",
];

/// Phones take half a second for a long press.
pub const LONG_PRESS_MS: u64 = 800;

#[must_use]
pub fn describe_page(sought: &PageQuery) -> String {
    match sought {
        PageQuery::Words(words) => format!("page {}", Value::from(words.as_str())),
        PageQuery::Other => "the other page".to_owned(),
        PageQuery::Id(id) => id.to_string(),
    }
}

fn page_of(sought: Option<&PageQuery>, shown: Option<&ShownElement>) -> Value {
    match shown {
        Some(shown) => json!({"id": shown.selector, "description": shown.description}),
        None => json!({"id": null, "description": sought.map_or_else(|| "this page".to_owned(), describe_page)}),
    }
}

#[must_use]
pub fn describe(sought: &ElementQuery) -> String {
    match sought {
        ElementQuery::Css(selector) => selector.clone(),
        ElementQuery::Described { role: Some(role), words } if words.is_empty() => role.clone(),
        ElementQuery::Described { role, words } => {
            let words = Value::from(words.as_str());
            role.as_ref().map_or_else(|| words.to_string(), |role| format!("{role} {words}"))
        }
        ElementQuery::Ref(reference) => reference.clone(),
    }
}

fn target_of(sought: &ElementQuery, shown: Option<&ShownElement>) -> Value {
    let selector = match sought {
        ElementQuery::Css(selector) => Some(selector.as_str()),
        ElementQuery::Described { .. } | ElementQuery::Ref(_) => None,
    };
    shown.map_or_else(|| json!({"selector": selector, "description": describe(sought)}), element)
}

fn element(shown: &ShownElement) -> Value {
    json!({"selector": shown.selector, "description": shown.description})
}

fn condition_of(condition: &WaitCondition, shown: Option<&ShownElement>) -> Value {
    match condition {
        WaitCondition::Visible(sought) => json!({"kind": "selector", "target": target_of(sought, shown)}),
        WaitCondition::Hidden(sought) => json!({"kind": "selector_hidden", "target": target_of(sought, shown)}),
        WaitCondition::Url(pattern) => json!({"kind": "url_matches", "pattern": pattern}),
        WaitCondition::Time { ms } => json!({"kind": "time", "ms": ms}),
        WaitCondition::Download => json!({"kind": "download"}),
        WaitCondition::Page => json!({"kind": "page"}),
    }
}

/// Step of a plan
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentIntent, example = json!({
    "id": "step_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "kind": "tap",
    "target": {"selector": "#sign-in", "description": "button \"Sign in\""}, "needs_approval": false, "status": "done",
    "result": {"ok": true, "kind": "tap", "duration_ms": 63, "url": "https://example.com/"}, "error": null,
}))]
pub struct Intent {
    /// Step ID, with which the step is approved
    #[schema(value_type = String)]
    pub id: StepId,
    /// Kind of step
    pub kind: &'static str,
    /// Parameters of the step; a text to type is never included
    #[serde(flatten)]
    #[schema(value_type = Object)]
    about: Map<String, Value>,
    /// True if the step submits data and must be approved before it runs
    pub needs_approval: bool,
    /// Status of the step
    #[schema(value_type = String)]
    pub status: StepStatus,
    /// Result of the step's operation
    #[schema(value_type = Option<Object>, required = true)]
    pub result: Option<Box<RawValue>>,
    /// Reason the step failed
    #[schema(required = true)]
    pub error: Option<String>,
}

impl Intent {
    /// The values of `extract` are not hidden.
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

    pub(super) fn put_content(&mut self, content: Option<Vec<u8>>) -> sqlx::Result<()> {
        let Some(content) = content else { return Ok(()) };
        let Some(json) = self.result.take() else { return Ok(()) };
        let stored = StoredResult { json, content: Some(content), page_url: None };
        let whole = run_blocking(stored.content_bytes(), || stored.into_body()).map_err(unreadable)?;
        let whole = String::from_utf8(whole).map_err(unreadable)?;
        self.result = Some(RawValue::from_string(whole).map_err(unreadable)?);
        Ok(())
    }
}

fn unreadable(error: impl Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(error.into())
}

/// The last texts to type of an agent session are hidden in responses. They are read up to a total of [`MAX_BYTES`]
/// sealed bytes; beyond that, everything is hidden.
const MAX_TYPED: i64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct SealedTexts {
    steps: Vec<(StepId, Vec<u8>)>,
    too_many: bool,
}

pub(crate) async fn typed(conn: &mut PgConnection, session: AgentSessionId) -> sqlx::Result<SealedTexts> {
    let rows = sqlx::query!(
        r#"select id as "id!: StepId", case when bytes <= $3 then sealed_wish end as sealed_wish
           from (select id, sealed_wish, sum(octet_length(sealed_wish)) over (order by turn_id desc, position desc) as bytes
                 from (select id, sealed_wish, turn_id, position from agent_steps
                       where agent_session_id = $1 and kind in ('type', 'fill', 'dialog')
                       order by turn_id desc, position desc limit $2) newest) summed"#,
        session as _,
        MAX_TYPED,
        i64::from(MAX_BYTES),
    )
    .fetch_all(conn)
    .await?;
    let too_many = rows.iter().any(|row| row.sealed_wish.is_none());
    let steps = rows.into_iter().filter_map(|row| Some((row.id, row.sealed_wish?)));
    Ok(SealedTexts { steps: steps.collect(), too_many })
}

impl SealedTexts {
    /// All spellings of the texts count.
    pub(crate) fn weight(&self) -> usize {
        self.steps.iter().map(|(_, sealed)| sealed.len()).sum::<usize>() * 16
    }

    /// Slow for large inputs: run it off the async runtime.
    pub(crate) fn open(&self, sealer: &Sealer) -> sqlx::Result<Typed> {
        let mut typed = TypedTexts { too_many: self.too_many, ..TypedTexts::default() };
        if !typed.too_many {
            for (id, sealed) in &self.steps {
                match sealer.open(&id.to_string(), sealed)? {
                    Command::Type { value, .. } | Command::Fill { value, .. } => typed.texts.push(value),
                    Command::Dialog { text, .. } => typed.texts.extend(text),
                    _ => {}
                }
            }
        }
        Ok(Typed::new(&typed))
    }
}

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

/// `false` if another process has started or ended the turn.
pub(super) async fn plan(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &QueuedTurn,
    sealed_texts: &[u8],
    steps: &[Step],
) -> sqlx::Result<bool> {
    let (ids, operations) = ids(steps);
    let (kinds, commands) = seal_commands(sealer, steps)?;
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
        sealed_texts,
        &ids,
        &operations,
        &kinds,
        &commands,
    )
    .fetch_one(conn)
    .await
}

/// A newer plan exists.
pub(super) async fn leave_out(conn: &mut PgConnection, turn: &QueuedTurn) -> sqlx::Result<()> {
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

pub(super) async fn append(
    conn: &mut PgConnection,
    sealer: &Sealer,
    turn: &QueuedTurn,
    before: usize,
    steps: &[Step],
) -> sqlx::Result<()> {
    let (ids, operations) = ids(steps);
    let (kinds, commands) = seal_commands(sealer, steps)?;
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
        &commands,
        turn.id as _,
        turn.session as _,
        i32::try_from(before).unwrap_or(i32::MAX),
        &origins as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A held step was already attempted, so a new operation performs it. `false` if another process has started or ended
/// the turn.
pub(super) async fn take_over(
    conn: &mut PgConnection,
    turn: &QueuedTurn,
    sealed_texts: &[u8],
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
        sealed_texts,
        &ids,
        &operations,
    )
    .fetch_one(conn)
    .await
}

fn seal_commands(sealer: &Sealer, steps: &[Step]) -> sqlx::Result<(Vec<String>, Vec<Vec<u8>>)> {
    let column = |step: &Step| Ok((kind(&step.command).to_owned(), sealer.seal(&step.id.to_string(), &step.command)?));
    steps.iter().map(column).collect::<sqlx::Result<Vec<_>>>().map(|columns| columns.into_iter().unzip())
}

fn ids(steps: &[Step]) -> (Vec<Uuid>, Vec<Uuid>) {
    steps.iter().map(|step| (step.id.as_uuid(), step.operation.as_uuid())).unzip()
}

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

    pub(super) fn bytes(&self) -> usize {
        self.shown.iter().chain(&self.ends).flatten().map(Vec::len).sum()
    }
}

#[derive(Debug)]
pub(super) struct SealedStep {
    pub(super) turn: TurnId,
    pub(super) id: StepId,
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

/// Reads the steps of turns, in the order of the turns and plans, with the content of captures that is still stored.
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
    pub(super) fn bytes(&self) -> usize {
        let parts =
            [&self.sealed_shown, &self.sealed_result, &self.sealed_text_origins, &self.content].into_iter().flatten();
        self.sealed_wish.len() + parts.map(Vec::len).sum::<usize>()
    }

    pub(super) fn open(self, sealer: &Sealer) -> sqlx::Result<(Step, Option<Vec<u8>>)> {
        let id = self.id.to_string();
        let shown = self.sealed_shown.map(|sealed| sealer.open(&id, &sealed)).transpose()?.unwrap_or_default();
        let text_origins = self.sealed_text_origins.map(|sealed| sealer.open(&id, &sealed)).transpose()?;
        let end = self.sealed_result.map(|sealed| sealer.open::<StepEnd>(&id, &sealed)).transpose()?;
        let mut step = Step {
            id: self.id,
            command: sealer.open(&id, &self.sealed_wish)?,
            status: self.status,
            needs_approval: self.needs_approval,
            text_origins,
            operation: self.operation,
            shown,
            end: end.unwrap_or_default(),
        };
        if self.lost && step.status == StepStatus::Failed && step.end.error.is_none() {
            step.end.error = Some("the worker died, so the outcome of the step is unknown".to_owned());
        }
        Ok((step, self.content))
    }
}
