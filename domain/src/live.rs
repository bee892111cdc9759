//! Access to a session's live view (contract: live 24 to 28).
//!
//! A ticket is valid for one connection. The row of a used ticket stays, because it records the credential that the
//! viewer was admitted with: if that is revoked, or its account may no longer see the session, the viewer is
//! disconnected.

pub mod driving;
pub mod links;

use std::time::Duration;

use kitfleet_types::ids::{AccountId, SessionId, WorkerId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::actors::Origin;
use crate::area::{Area, Bound, Purge};
use crate::credentials::{Credential, CredentialColumns};
use crate::tokens::{self, Token};

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

/// Permissions of a participant in a live view or in a `LiveKit` room.
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
    #[default]
    Viewer,
    /// May also act while a human has control.
    Controller,
}

impl Role {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.iter().copied().find(|role| role.name() == text);
        known.ok_or_else(|| Invalid::field("role", "must be viewer or controller"))
    }
}

#[derive(Debug)]
pub struct NewTicket<'a> {
    /// Session to watch. It belongs to the acting account, or to an account whose team the acting account is on.
    pub session: SessionId,
    pub role: Role,
    /// Identifies the human who drives an agent session.
    pub client_id: Option<&'a str>,
    /// May change who drives the agent session.
    pub takes_over: bool,
    pub acting: AccountId,
    pub origin: Origin,
    pub credential: Credential,
    pub ttl: Duration,
}

/// `None` if the session has ended.
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

/// Returns whether the session is still live; `None` if the ticket is not valid for it.
pub async fn ticket_state(conn: &mut PgConnection, session: SessionId, ticket: &str) -> sqlx::Result<Option<bool>> {
    sqlx::query_scalar!(
        r#"select s.live as "live!" from live_tickets t join sessions s on s.id = t.session_id
           where t.ticket_hash = $1 and t.session_id = $2 and t.used_at is null and t.expires_at > now()"#,
        tokens::hash(ticket),
        session as _,
    )
    .fetch_optional(conn)
    .await
}

/// A viewer who used a ticket.
#[derive(Debug, Clone)]
pub struct Admission {
    pub id: Uuid,
    pub role: Role,
    pub client_id: Option<String>,
    pub takes_over: bool,
}

/// `None` if the ticket is not valid for the session on this worker.
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
    // The credential may have been revoked after the ticket was issued.
    Ok(withdrawn(conn, &[admission.id]).await?.is_empty().then_some(admission))
}

/// The given admissions that are no longer valid:
///
/// * The account was suspended.
/// * The credential was revoked, has expired or does not work on the free tier (contract: authorization 4).
/// * The acting account has not been an admin of the owner's team continuously since the admission.
/// * The viewer came through a link that was revoked or has expired.
///
/// Not after the end of the session: its browser closes soon, and its viewers receive the reason.
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

/// An unused ticket, and a ticket issued through a link, is deleted as soon as it expires. Others are kept for one more
/// day, and while their session is live.
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
