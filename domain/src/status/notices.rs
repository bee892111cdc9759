//! Notices: mails to all subscribers about incidents (contract: status 19 to 22).
//!
//! A notice has its kind and the last subscriber whose mail was queued. A process that queues the next batch locks the
//! row of the incident: one process at a time works on an incident, in the order of its notices. A batch queues its
//! mails in the transaction that records its progress, so each subscriber gets each notice once.
//!
//! A notice goes to the subscribers that had confirmed before its text was written, by the database's clock.

use std::time::Duration;

use kitfleet_types::ids::{IncidentId, IncidentNoticeId, IncidentUpdateId, SubscriberId};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::emails::{self, NOTICE_GOOD_FOR, Template};

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Kind {
    Posted,
    /// The notice contains the newest update.
    Updated,
    Resolved,
}

impl Kind {
    fn template(self) -> Template {
        match self {
            Self::Posted => Template::IncidentPosted,
            Self::Updated => Template::IncidentUpdated,
            Self::Resolved => Template::IncidentResolved,
        }
    }
}

/// If an update notice is already waiting, it will contain the newest text. The caller must hold the lock on the
/// incident's row.
pub(super) async fn write(
    conn: &mut PgConnection,
    incident: IncidentId,
    kind: Kind,
    update: Option<IncidentUpdateId>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into incident_notices (id, incident_id, kind, update_id) values ($1, $2, $3, $4) on conflict do nothing",
        IncidentNoticeId::generate() as _,
        incident as _,
        kind as _,
        update as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The caller must hold the lock on the incident's row.
pub(super) async fn drop_updates(conn: &mut PgConnection, incident: IncidentId) -> sqlx::Result<()> {
    sqlx::query!(
        "update incident_notices set done_at = now() where incident_id = $1 and kind = 'updated' and done_at is null",
        incident as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The next `limit` subscribers of a due notice. Returns false when no notice is due or another process works on it.
pub async fn queue_batch(conn: &mut PgConnection, update_interval: Duration, limit: i64) -> sqlx::Result<bool> {
    // The oldest open notice of each incident. An update notice is due at the earliest one interval after the previous
    // update notice was completed.
    let next = sqlx::query!(
        r#"select n.id as "id: IncidentNoticeId", n.incident_id as "incident: IncidentId" from (
               select distinct on (incident_id) * from incident_notices where done_at is null order by incident_id, id
           ) n
           where n.kind <> 'updated' or n.begun_at is not null or not exists (
               select from incident_notices before
               where before.incident_id = n.incident_id and before.kind = 'updated' and before.begun_at is not null
                 and before.done_at > now() - make_interval(secs => $1))
           order by n.id limit 1"#,
        update_interval.as_secs_f64(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(next) = next else { return Ok(false) };
    // Updates of the incident lock its row too, so the text read below is the newest.
    let held = sqlx::query!(
        r#"select id as "id: IncidentId" from incidents where id = $1 for no key update skip locked"#,
        next.incident as _
    )
    .fetch_optional(&mut *conn)
    .await?;
    if held.is_none() {
        return Ok(false);
    }
    let begun = sqlx::query!(
        r#"update incident_notices n
           set begun_at = coalesce(begun_at, now()),
               update_id = coalesce(update_id, (
                   select u.id from incident_updates u where u.incident_id = n.incident_id order by u.id desc limit 1))
           where id = $1 and done_at is null
           returning kind as "kind: Kind", update_id as "update_id: IncidentUpdateId", after as "after: SubscriberId",
                     (select u.created_at from incident_updates u where u.id = coalesce(n.update_id, (
                         select newest.id from incident_updates newest
                         where newest.incident_id = n.incident_id order by newest.id desc limit 1))) as "written_at!""#,
        next.id as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    // Another process has completed the notice in the meantime.
    let Some(begun) = begun else { return Ok(true) };
    // A concurrent unsubscribe waits until the mail row is inserted and then deletes it together with the subscriber.
    let readers = sqlx::query_scalar!(
        r#"select id as "id: SubscriberId" from status_subscribers
           where confirmed_at < $1 and id > $2 order by id limit $3 for key share"#,
        begun.written_at as _,
        // Must not be null, because it is the start of an index range.
        begun.after.map_or(Uuid::nil(), |after| after.as_uuid()),
        limit,
    )
    .fetch_all(&mut *conn)
    .await?;
    let good_for = if begun.kind == Kind::Updated { update_interval } else { NOTICE_GOOD_FOR };
    let details = json!({"update_id": begun.update_id, emails::SUBJECT: next.incident});
    emails::queue_for_subscribers(&mut *conn, begun.kind.template(), &readers, &details, good_for).await?;
    sqlx::query!(
        "update incident_notices
         set after = coalesce($2, after), done_at = case when $2::uuid is null then now() end where id = $1",
        next.id as _,
        readers.last().copied() as _,
    )
    .execute(conn)
    .await?;
    Ok(true)
}
