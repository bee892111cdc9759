//! Incidents that staff post (contract: status 10 to 14).

use std::collections::HashMap;

use kitfleet_types::ids::{IncidentId, IncidentUpdateId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use sqlx::PgConnection;
use strum::VariantArray as _;
use uuid::Uuid;

use super::components::Component;
use super::notices::{self, Kind};

pub const TITLE_CHARS: usize = 120;
pub const MESSAGE_CHARS: usize = 5_000;
/// Message of a resolution without one.
const DEFAULT_RESOLUTION: &str = "This incident has been resolved.";
/// Open incidents, and updates of each.
const SHOWN: i64 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Impact {
    Minor,
    Major,
    Critical,
}

impl Impact {
    pub const NAMES: [&'static str; 3] = ["minor", "major", "critical"];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Status {
    Investigating,
    Identified,
    Monitoring,
    Resolved,
}

impl Status {
    pub const OPEN: [&'static str; 3] = ["investigating", "identified", "monitoring"];
    pub const NAMES: [&'static str; 4] = ["investigating", "identified", "monitoring", "resolved"];

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|status| status.name() == name)
    }
}

#[derive(Debug, Clone)]
pub struct Incident {
    pub id: IncidentId,
    pub title: String,
    pub impact: Impact,
    pub status: Status,
    /// As [`Component`] names them.
    pub components: Vec<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    pub updates: Vec<Update>,
}

#[derive(Debug, Clone)]
pub struct Update {
    pub status: Status,
    pub message: String,
    pub created_at: Timestamp,
}

#[derive(Debug)]
pub struct NewIncident {
    title: String,
    message: Message,
    impact: Impact,
    components: Vec<String>,
}

impl NewIncident {
    /// Contract: status 11.
    pub fn parse(title: &str, message: &str, impact: &str, components: &[String]) -> Result<Self, Invalid> {
        let title = title.trim();
        let mut rules = Rules::default();
        rules.length(title, 1, TITLE_CHARS, "title");
        rules.require(!title.contains(char::is_control), "title", "must not contain control characters");
        let message = Message::parse(message).map_err(|invalid| rules.note(Some(invalid)));
        let known = Impact::VARIANTS.iter().copied().find(|known| known.name() == impact);
        rules.require(known.is_some(), "impact", format!("must be one of {}", Impact::NAMES.join(", ")));
        let found: Vec<_> = components.iter().filter_map(|name| Component::find(name)).collect();
        let all_known = found.len() == components.len();
        rules.require(all_known, "components", format!("must contain only {}", Component::NAMES.join(", ")));
        rules.check()?;
        let (Ok(message), Some(impact)) = (message, known) else { unreachable!("rules were checked") };
        // Without duplicates, in the order in which the page shows them.
        let components = Component::ALL.iter().filter(|component| found.contains(component));
        let components = components.map(|component| component.name().to_owned()).collect();
        Ok(Self { title: title.to_owned(), message, impact, components })
    }
}

#[derive(Debug)]
pub struct Message(String);

impl Message {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let text = text.trim().replace("\r\n", "\n");
        let mut rules = Rules::default();
        rules.length(&text, 1, MESSAGE_CHARS, "message");
        let shown = !text.contains(|c: char| c.is_control() && c != '\n');
        rules.require(shown, "message", "must not contain control characters other than line breaks");
        rules.check()?;
        Ok(Self(text))
    }

    #[must_use]
    pub fn of_solution() -> Self {
        Self(DEFAULT_RESOLUTION.to_owned())
    }
}

impl From<Message> for String {
    fn from(message: Message) -> Self {
        message.0
    }
}

pub fn parse_open_status(text: &str) -> Result<Status, Invalid> {
    let known = Status::VARIANTS.iter().copied().find(|status| *status != Status::Resolved && status.name() == text);
    known.ok_or_else(|| Invalid::field("status", format!("must be one of {}", Status::OPEN.join(", "))))
}

/// Queues the mail to subscribers.
pub async fn post(conn: &mut PgConnection, new: NewIncident) -> sqlx::Result<IncidentId> {
    let id = IncidentId::generate();
    sqlx::query!(
        "insert into incidents (id, title, impact, status, components) values ($1, $2, $3, 'investigating', $4)",
        id as _,
        new.title,
        new.impact as _,
        &new.components,
    )
    .execute(&mut *conn)
    .await?;
    let update = insert_update(&mut *conn, id, Status::Investigating, new.message).await?;
    notices::write(conn, id, Kind::Posted, Some(update)).await?;
    Ok(id)
}

#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("the incident does not exist")]
    Unknown,
    #[error("the incident is already resolved")]
    Resolved,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Queues the mail to subscribers.
pub async fn update(
    conn: &mut PgConnection,
    id: IncidentId,
    status: Status,
    message: Message,
) -> Result<(), ChangeError> {
    move_to(&mut *conn, id, status).await?;
    insert_update(&mut *conn, id, status, message).await?;
    notices::write(conn, id, Kind::Updated, None).await?;
    Ok(())
}

/// Drops queued mails about earlier updates, because subscribers receive the resolution.
pub async fn resolve(conn: &mut PgConnection, id: IncidentId, message: Message) -> Result<(), ChangeError> {
    move_to(&mut *conn, id, Status::Resolved).await?;
    let update = insert_update(&mut *conn, id, Status::Resolved, message).await?;
    notices::drop_updates(&mut *conn, id).await?;
    notices::write(conn, id, Kind::Resolved, Some(update)).await?;
    Ok(())
}

/// The row lock puts all updates and their mails in one order.
async fn move_to(conn: &mut PgConnection, id: IncidentId, status: Status) -> Result<(), ChangeError> {
    let moved = sqlx::query!(
        "update incidents
         set status = $2, updated_at = now(), resolved_at = case when $2 = 'resolved' then now() end
         where id = $1 and status <> 'resolved'",
        id as _,
        status as _,
    )
    .execute(&mut *conn)
    .await?;
    if moved.rows_affected() == 1 {
        return Ok(());
    }
    let known = sqlx::query_scalar!(r#"select exists(select from incidents where id = $1) as "known!""#, id as _);
    Err(if known.fetch_one(conn).await? { ChangeError::Resolved } else { ChangeError::Unknown })
}

async fn insert_update(
    conn: &mut PgConnection,
    incident: IncidentId,
    status: Status,
    Message(message): Message,
) -> sqlx::Result<IncidentUpdateId> {
    let id = IncidentUpdateId::generate();
    sqlx::query!(
        "insert into incident_updates (id, incident_id, status, message, created_at) values ($1, $2, $3, $4, clock_timestamp())",
        id as _,
        incident as _,
        status as _,
        message,
    )
    .execute(conn)
    .await?;
    Ok(id)
}

pub async fn list_open(conn: &mut PgConnection) -> sqlx::Result<Vec<Incident>> {
    let open =
        sqlx::query_scalar!("select id from incidents where status <> 'resolved' order by id desc limit $1", SHOWN,)
            .fetch_all(&mut *conn)
            .await?;
    read(conn, &open).await
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    pub status: Option<Status>,
    pub before: Option<IncidentId>,
    pub limit: i64,
}

/// The newest first, each with its newest updates.
pub async fn list(conn: &mut PgConnection, filter: Filter) -> sqlx::Result<Vec<Incident>> {
    let ids = sqlx::query_scalar!(
        r#"select id as "id: IncidentId" from incidents
           where ($1::text is null or status = $1) and id < $2 order by id desc limit $3"#,
        filter.status.map(Status::name),
        filter.before.map_or(Uuid::max(), |before| before.as_uuid()),
        filter.limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    read(conn, &ids).await
}

pub async fn find(conn: &mut PgConnection, id: IncidentId) -> sqlx::Result<Option<Incident>> {
    Ok(read(conn, &[id]).await?.pop())
}

async fn read(conn: &mut PgConnection, ids: &[IncidentId]) -> sqlx::Result<Vec<Incident>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select u.incident_id, u.status as "status: Status", u.message, u.created_at
           from unnest($1::uuid[]) i (id)
           cross join lateral (
               select * from incident_updates where incident_id = i.id order by id desc limit $2
           ) u
           order by u.id desc"#,
        ids as _,
        SHOWN,
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut updates = HashMap::<_, Vec<_>>::new();
    for row in rows {
        let update = Update { status: row.status, message: row.message, created_at: row.created_at };
        updates.entry(row.incident_id).or_default().push(update);
    }
    let rows = sqlx::query!(
        r#"select id, title, impact as "impact: Impact", status as "status: Status", components, created_at, updated_at,
                  resolved_at
           from incidents where id = any($1) order by id desc"#,
        ids as _,
    )
    .fetch_all(conn)
    .await?;
    let incidents = rows.into_iter().map(|row| Incident {
        id: row.id,
        title: row.title,
        impact: row.impact,
        status: row.status,
        components: row.components,
        created_at: row.created_at,
        updated_at: row.updated_at,
        resolved_at: row.resolved_at,
        updates: updates.remove(&row.id).unwrap_or_default(),
    });
    Ok(incidents.collect())
}

#[derive(Debug)]
pub struct IncidentMail {
    pub title: String,
    pub impact: Impact,
    /// As [`Component`] names them.
    pub components: Vec<String>,
    pub status: Status,
    pub message: String,
    /// True when the incident is resolved by now.
    pub over: bool,
}

impl IncidentMail {
    #[must_use]
    pub fn subject(&self, kind: Kind) -> String {
        let what = match kind {
            Kind::Posted => "Incident",
            Kind::Updated => "Update",
            Kind::Resolved => "Resolved",
        };
        format!("[Kitfleet] {what}: {}", self.title)
    }

    #[must_use]
    pub fn paragraphs(&self, base_url: &str) -> Vec<String> {
        let Self { impact, components, status, message, .. } = self;
        let affected =
            if components.is_empty() { String::new() } else { format!(" Affected: {}.", components.join(", ")) };
        let mut paragraphs = vec![format!("Status: {}. Impact: {}.{affected}", status.name(), impact.name())];
        paragraphs.extend(message.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        paragraphs.push(format!("Service status: {base_url}/status"));
        paragraphs
    }

    /// Mail about an incident that is not stored.
    #[must_use]
    pub fn draft(incident: NewIncident, status: Status) -> Self {
        let NewIncident { title, message, impact, components } = incident;
        Self { title, impact, components, status, message: message.0, over: status == Status::Resolved }
    }
}

pub async fn find_mail(conn: &mut PgConnection, update: IncidentUpdateId) -> sqlx::Result<Option<IncidentMail>> {
    sqlx::query_as!(
        IncidentMail,
        r#"select i.title, i.impact as "impact: _", i.components, u.status as "status: _", u.message,
                  i.status = 'resolved' as "over!"
           from incident_updates u join incidents i on i.id = u.incident_id where u.id = $1"#,
        update as _,
    )
    .fetch_optional(conn)
    .await
}
