//! Reads the audit log (contract: audit-log 4 to 6) and redacts each row for its reader.
//!
//! A row caused by another account does not show the location of its actor: IP address, user agent, and the payload
//! members with the same data. A reader from another account sees no such members in any row.

use kitfleet_types::ids::{AccountId, ApiKeyId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::cursors::id_bounds;

const LOCATION_MEMBERS: [&str; 5] = ["issued_from_ip", "source_ip", "ip_address", "user_agent", "issued_user_agent"];

/// Audit log of an account, as seen by one reader.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    pub account: AccountId,
    /// `None` when the reader is not an account.
    pub reader: Option<AccountId>,
}

#[derive(Debug)]
pub struct Row {
    pub id: Uuid,
    pub account_id: AccountId,
    pub actor_type: String,
    /// `None` when the actor is not an account.
    pub actor_account_id: Option<AccountId>,
    pub actor_key_id: Option<ApiKeyId>,
    pub action: String,
    pub target_resource_id: Option<String>,
    pub payload: Value,
    pub ip_address: Option<String>,
    pub user_agent: Option<String>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Filter<'a> {
    /// One of [`crate::areas::actions`].
    pub action: Option<&'static str>,
    pub actor: Option<AccountId>,
    pub target: Option<&'a str>,
    /// Inclusive, and exclusive.
    pub created: (Option<Timestamp>, Option<Timestamp>),
    pub after: Option<Uuid>,
}

/// There is a part for each filter, so that each walks one index from a point on, whatever the size of the log and the plan that
/// the database selects. Of several filters, the most selective one determines the index. Rows of the account's own actions are
/// most of the log, so that they need no index of their own.
pub async fn list(conn: &mut PgConnection, log: Log, filter: Filter<'_>, limit: i64) -> sqlx::Result<Vec<Row>> {
    let (first, end) = id_bounds(filter.created, filter.after);
    let stored = sqlx::query_as!(
        Stored,
        r#"select id, account_id, actor_type, actor_account_id, actor_key_id, action, target_resource_id,
                  payload::text as "payload!", ip_address, user_agent, created_at
           from audit_log where id = any(array(
               (select id from audit_log
                where $7::text is null and $6::text is null and ($8::uuid is null or $8 = $1) and account_id = $1
                  and ($8 is null or actor_account_id = $8) and id < $2 and id >= $4
                  and created_at >= coalesce($5::timestamptz, '-infinity') and created_at < coalesce($9::timestamptz, 'infinity')
                order by id desc limit $3)
               union all
               (select id from audit_log
                where $7 is null and $6 is null and $8 <> $1 and account_id = $1 and actor_account_id = $8
                  and actor_account_id <> account_id and id < $2 and id >= $4
                  and created_at >= coalesce($5, '-infinity') and created_at < coalesce($9, 'infinity')
                order by id desc limit $3)
               union all
               (select id from audit_log
                where $7 is null and account_id = $1 and action = $6 and ($8 is null or actor_account_id = $8)
                  and id < $2 and id >= $4
                  and created_at >= coalesce($5, '-infinity') and created_at < coalesce($9, 'infinity')
                order by id desc limit $3)
               union all
               (select id from audit_log
                where account_id = $1 and target_resource_id = $7 and ($6 is null or action = $6)
                  and ($8 is null or actor_account_id = $8) and id < $2 and id >= $4
                  and created_at >= coalesce($5, '-infinity') and created_at < coalesce($9, 'infinity')
                order by id desc limit $3)
           )) order by id desc limit $3"#,
        log.account as _,
        end,
        limit,
        first,
        filter.created.0 as _,
        filter.action,
        filter.target,
        filter.actor as _,
        filter.created.1 as _,
    )
    .fetch_all(conn)
    .await?;
    Ok(stored.into_iter().map(|row| row.shown_to(log.reader)).collect())
}

/// Ids of the newest rows at one moment. Rows are never changed or deleted, so the ids are enough to read exactly these
/// rows later in batches, without a transaction that stays open for a slow reader.
#[derive(Debug)]
pub struct Snapshot {
    pub taken_at: Timestamp,
    pub ids: Vec<Uuid>,
    pub truncated: bool,
}

pub async fn snapshot(conn: &mut PgConnection, account: AccountId, limit: u32) -> sqlx::Result<Snapshot> {
    let newest = sqlx::query!(
        r#"select now() as "taken_at!",
                  array(select id from audit_log where account_id = $1 order by id desc limit $2) as "ids!""#,
        account as _,
        // One row more than `limit` shows whether there are older rows.
        i64::from(limit) + 1,
    )
    .fetch_one(conn)
    .await?;
    let (taken_at, mut ids) = (newest.taken_at, newest.ids);
    let truncated = ids.len() > limit as usize;
    ids.truncate(limit as usize);
    Ok(Snapshot { taken_at, ids, truncated })
}

pub async fn rows(conn: &mut PgConnection, log: Log, ids: &[Uuid]) -> sqlx::Result<Vec<Row>> {
    let stored = sqlx::query_as!(
        Stored,
        r#"select id, account_id, actor_type, actor_account_id, actor_key_id, action, target_resource_id,
                  payload::text as "payload!", ip_address, user_agent, created_at
           from audit_log where account_id = $1 and id = any($2) order by id desc"#,
        log.account as _,
        ids,
    )
    .fetch_all(conn)
    .await?;
    Ok(stored.into_iter().map(|row| row.shown_to(log.reader)).collect())
}

struct Stored {
    id: Uuid,
    account_id: AccountId,
    actor_type: String,
    actor_account_id: Option<AccountId>,
    actor_key_id: Option<ApiKeyId>,
    action: String,
    target_resource_id: Option<String>,
    payload: String,
    ip_address: Option<String>,
    user_agent: Option<String>,
    created_at: Timestamp,
}

impl Stored {
    fn shown_to(self, reader: Option<AccountId>) -> Row {
        let by_another = self.actor_account_id.is_some_and(|actor| actor != self.account_id);
        let location = (self.ip_address, self.user_agent);
        let (ip_address, user_agent) = if by_another { (None, None) } else { location };
        Row {
            id: self.id,
            account_id: self.account_id,
            actor_type: self.actor_type,
            actor_account_id: self.actor_account_id,
            actor_key_id: self.actor_key_id,
            action: self.action,
            target_resource_id: self.target_resource_id,
            payload: shown(&self.payload, by_another || reader != Some(self.account_id)),
            ip_address,
            user_agent,
            timestamp: self.created_at,
        }
    }
}

/// A payload that another program wrote can be JSON that this program cannot parse, with numbers out of range or deeper
/// nesting. Its text is then returned in the member `unparsed`, or dropped when the payload must be redacted.
fn shown(payload: &str, redacted: bool) -> Value {
    match serde_json::from_str(payload) {
        Ok(mut value) => {
            if redacted {
                redact(&mut value);
            }
            value
        }
        Err(_) if redacted => json!({}),
        Err(_) => json!({"unparsed": payload}),
    }
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !LOCATION_MEMBERS.contains(&name.as_str()));
            members.values_mut().for_each(redact);
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_members_are_removed_at_any_depth() {
        let payload = json!({
            "ip_address": "::1", "method": "password", "user_agent": {"a": 1},
            "more": [{"source_ip": 1, "kept": [[{"issued_user_agent": "x", "issued_from_ip": "y"}]]}],
        });
        let left = json!({"method": "password", "more": [{"kept": [[{}]]}]});
        assert_eq!(shown(&payload.to_string(), true), left);
        assert_eq!(shown(&payload.to_string(), false), payload);
    }

    #[test]
    fn payload_of_any_shape_is_returned() {
        for shape in [json!(null), json!(-5), json!("ip_address"), json!([[1], {}]), json!(true)] {
            let payload = json!({ "": shape });
            assert_eq!(shown(&payload.to_string(), true), payload);
        }
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        for strange in ["1e999", &deep] {
            let payload = format!(r#"{{"strange": {strange}}}"#);
            assert_eq!(shown(&payload, false), json!({"unparsed": payload}));
            assert_eq!(shown(&payload, true), json!({}));
        }
    }
}
