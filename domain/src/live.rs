//! Who may watch a session's browser, and act in it (contract: live 24 to 28).
//!
//! A ticket is shown once, to the worker that has the browser, which uses it up. Its row stays, and says by what credential its viewer
//! was let in: when that is revoked, or whoever asked for it may not see the session any more, the viewer has to leave.

pub mod driving;
pub mod links;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::actors::Origin;
use crate::area::{Area, Bound, Purge};
use crate::credentials::{Credential, CredentialColumns};
use crate::ids::{AccountId, SessionId, WorkerId};
use crate::timestamp::Timestamp;
use crate::tokens::{self, Token};
use crate::validation::Invalid;

pub(crate) const AREA: Area = Area {
    purges: &[
        Purge::new("live_tickets", "live_tickets", |conn, _, limit| Box::pin(purge(conn, limit))),
        Purge::new("live_tickets", "live_links", |conn, _, limit| Box::pin(links::purge(conn, limit))),
    ],
    bounds: &[
        ("live_tickets", Bound::Term("a day after it expired")),
        ("live_links", Bound::Account("16 valid ones for each session; each is deleted a day after it expired")),
    ],
    ..Area::named("live")
};

/// What somebody may do who was let in, to a live view or to a room of `LiveKit`'s.
#[derive(
    Debug,
    Default,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Role {
    /// Look.
    #[default]
    Viewer,
    /// Act too, while a human has the control.
    Controller,
}

impl Role {
    /// Every one.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract and metrics name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// # Errors
    /// On field `role`, when it is none.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.iter().copied().find(|role| role.name() == text);
        known.ok_or_else(|| Invalid::field("role", "must be viewer or controller"))
    }
}

/// A ticket that is asked for.
#[derive(Debug)]
pub struct NewTicket<'a> {
    /// Whose browser is to be seen. It is the caller's, or of an account whose team they are on.
    pub session: SessionId,
    /// As what.
    pub role: Role,
    /// What the client calls itself, where a human has to say so who drives an agent session.
    pub client_id: Option<&'a str>,
    /// Whether it may change who drives an agent session, as whoever asks may.
    pub takes_over: bool,
    /// Who asks.
    pub acting: AccountId,
    /// From where.
    pub origin: Origin,
    /// By what.
    pub credential: Credential,
    /// How long it is good.
    pub ttl: Duration,
}

/// Makes a ticket, and says when it expires. `None` when the session lives no more.
///
/// # Errors
/// When the database fails.
pub async fn issue(conn: &mut PgConnection, new: &NewTicket<'_>) -> sqlx::Result<Option<(Token, Timestamp)>> {
    let ticket = Token::generate();
    let by = CredentialColumns::of(new.credential);
    let expires_at = sqlx::query_scalar!(
        "insert into live_tickets (ticket_hash, session_id, role, client_id, acting_account_id, api_key_id, web_session_id,
                                   oauth_client_id, credential_expires_at, takes_over, ip_address, user_agent, expires_at)
         select $1, s.id, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now() + make_interval(secs => $13)
         from sessions s where s.id = $2 and s.live
         returning expires_at",
        ticket.hash(),
        new.session as _,
        new.role as _,
        new.client_id,
        new.acting as _,
        by.key,
        by.web_session,
        by.client,
        by.expires_at as _,
        new.takes_over,
        new.origin.ip_address,
        new.origin.user_agent,
        new.ttl.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(expires_at.map(|at| (ticket, at)))
}

/// Whether the session of a ticket that is good still lives. `None` when the ticket is none that is good for this session.
///
/// # Errors
/// When the database fails.
pub async fn look_at(conn: &mut PgConnection, session: SessionId, ticket: &str) -> sqlx::Result<Option<bool>> {
    sqlx::query_scalar!(
        r#"select s.live as "live!" from live_tickets t join sessions s on s.id = t.session_id
           where t.ticket_hash = $1 and t.session_id = $2 and t.used_at is null and t.expires_at > now()"#,
        tokens::hash(ticket),
        session as _,
    )
    .fetch_optional(conn)
    .await
}

/// A viewer who was let in.
#[derive(Debug, Clone)]
pub struct Admission {
    /// By which ticket.
    pub id: Uuid,
    /// As what.
    pub role: Role,
    /// What their client calls itself, if it does.
    pub client_id: Option<String>,
    /// Whether they may change who drives an agent session.
    pub takes_over: bool,
}

/// Uses a ticket up, at the worker that has the session. `None` when it is none that is good for it.
///
/// # Errors
/// When the database fails.
pub async fn use_up(
    conn: &mut PgConnection,
    session: SessionId,
    ticket: &str,
    worker: WorkerId,
) -> sqlx::Result<Option<Admission>> {
    let used = sqlx::query_as!(
        Admission,
        r#"update live_tickets t set used_at = now() from sessions s
           where t.ticket_hash = $1 and t.session_id = $2 and t.used_at is null and t.expires_at > now()
             and s.id = t.session_id and s.live and s.worker_id = $3
           returning t.id, t.role as "role: Role", t.client_id, t.takes_over"#,
        tokens::hash(ticket),
        session as _,
        worker as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(admission) = used else { return Ok(None) };
    // The credential may have been revoked since.
    Ok(withdrawn(conn, &[admission.id]).await?.is_empty().then_some(admission))
}

/// Those of these admissions that do not hold any more: the account is suspended, the credential was revoked, has expired or does not work
/// on the free tier (contract: authorization 4), or whoever was let in has not been an admin of the account's team ever since; or the link was
/// taken back or has expired that they came by. Not those to a session that has ended: its browser ends soon, and its viewers are told so.
///
/// # Errors
/// When the database fails.
pub async fn withdrawn(conn: &mut PgConnection, admissions: &[Uuid]) -> sqlx::Result<Vec<Uuid>> {
    let holding = sqlx::query_scalar!(
        r#"select t.id as "id!" from live_tickets t left join live_links l on l.id = t.link_id
         where t.id = any($1) and l.revoked_at is null and coalesce(l.expires_at > now(), true)
           and live_right_holds(t.session_id, t.acting_account_id, t.api_key_id, t.web_session_id, t.oauth_client_id, t.credential_expires_at,
                                coalesce(l.created_at, t.created_at))"#,
        admissions,
    )
    .fetch_all(conn)
    .await?;
    Ok(admissions.iter().copied().filter(|id| !holding.contains(id)).collect())
}

/// Deletes tickets that nobody came by, or by a link, as they expire, and others a day later, but none by which somebody watches a session that
/// lives, up to `limit`. Answers how many.
async fn purge(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from live_tickets where id = any(array(
             select t.id from live_tickets t
             where t.expires_at < now() and t.expires_at < now() - case when t.link_id is null and t.used_at is not null then interval '1 day' else interval '0' end
               and (t.used_at is null or not exists (select from sessions s where s.id = t.session_id and s.live))
             order by t.expires_at limit $1 for update skip locked))",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
