//! Reading the log (contract: audit-log 4 to 6): what a reader may see of a row is decided here, for every way of reading it.
//!
//! A row that another account caused tells nobody where its actor is: its address and user agent are null, and its payload
//! loses the members that tell the same. It loses them in every row for a reader from another account.

use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::ids::{AccountId, ApiKeyId};
use crate::timestamp::Timestamp;

/// Members of payloads that tell where somebody was.
const WHEREABOUTS: [&str; 5] = ["issued_from_ip", "source_ip", "ip_address", "user_agent", "issued_user_agent"];

/// A log, for somebody's eyes.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// Whose log it is.
    pub account: AccountId,
    /// Who reads it; `None` when it is nobody's account.
    pub reader: Option<AccountId>,
}

/// A row, as its reader may see it.
#[derive(Debug)]
pub struct Row {
    /// Its id, which sorts by time.
    pub id: Uuid,
    /// Whose log it is in.
    pub account_id: AccountId,
    /// `customer`, `system` or `staff`.
    pub actor_type: String,
    /// Whose credential it was; `None` when it was nobody's.
    pub actor_account_id: Option<AccountId>,
    /// Which key.
    pub actor_key_id: Option<ApiKeyId>,
    /// What was done.
    pub action: String,
    /// To what.
    pub target_resource_id: Option<String>,
    /// The details, of whatever shape.
    pub payload: Value,
    /// From where.
    pub ip_address: Option<String>,
    /// With what.
    pub user_agent: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}

/// Which rows to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filter {
    /// Only those of this action, one of [`crate::areas::actions`].
    pub action: Option<&'static str>,
    /// Only those before this one, in the list's order.
    pub after: Option<Uuid>,
}

/// The log's rows, newest first, at most `limit`.
///
/// Each of its two statements can only be answered by walking one index from a point on, however long the log is: a
/// condition that sometimes does not apply would leave the choice to the planner.
///
/// # Errors
/// When the database fails.
pub async fn list(conn: &mut PgConnection, log: Log, filter: Filter, limit: i64) -> sqlx::Result<Vec<Row>> {
    let before = filter.after.unwrap_or(Uuid::max());
    let stored = match filter.action {
        None => {
            sqlx::query_as!(
                Stored,
                r#"select id, account_id, actor_type, actor_account_id, actor_key_id, action, target_resource_id,
                          payload::text as "payload!", ip_address, user_agent, created_at
                   from audit_log where account_id = $1 and id < $2 order by id desc limit $3"#,
                log.account as _,
                before,
                limit,
            )
            .fetch_all(conn)
            .await?
        }
        Some(action) => {
            sqlx::query_as!(
                Stored,
                r#"select id, account_id, actor_type, actor_account_id, actor_key_id, action, target_resource_id,
                          payload::text as "payload!", ip_address, user_agent, created_at
                   from audit_log where account_id = $1 and action = $2 and id < $3 order by id desc limit $4"#,
                log.account as _,
                action,
                before,
                limit,
            )
            .fetch_all(conn)
            .await?
        }
    };
    Ok(stored.into_iter().map(|row| row.shown_to(log.reader)).collect())
}

/// The newest rows of a log at one moment. Rows never change and never go, so that their ids are all it takes to read
/// exactly these rows later, a few at a time and without a transaction that waits for its reader.
#[derive(Debug)]
pub struct Snapshot {
    /// The moment.
    pub taken_at: Timestamp,
    /// The rows, newest first.
    pub ids: Vec<Uuid>,
    /// Whether there are older ones.
    pub truncated: bool,
}

/// The newest rows of the account's log, at most `limit`.
///
/// # Errors
/// When the database fails.
pub async fn snapshot(conn: &mut PgConnection, account: AccountId, limit: u32) -> sqlx::Result<Snapshot> {
    let newest = sqlx::query!(
        r#"select now() as "taken_at!",
                  array(select id from audit_log where account_id = $1 order by id desc limit $2) as "ids!""#,
        account as _,
        // One more than wanted tells whether there are older ones.
        i64::from(limit) + 1,
    )
    .fetch_one(conn)
    .await?;
    let (taken_at, mut ids) = (newest.taken_at, newest.ids);
    let truncated = ids.len() > limit as usize;
    ids.truncate(limit as usize);
    Ok(Snapshot { taken_at, ids, truncated })
}

/// These rows of the log, newest first.
///
/// # Errors
/// When the database fails.
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

/// A row as it is stored.
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
        let whereabouts = (self.ip_address, self.user_agent);
        let (ip_address, user_agent) = if by_another { (None, None) } else { whereabouts };
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

/// A stored payload, which is an object, `redacted` or whole. One that this program did not write may be JSON that it cannot
/// hold, with numbers out of its range or deeper than it reads: its text is passed on as a member or, where it might tell too
/// much, not at all.
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
            members.retain(|name, _| !WHEREABOUTS.contains(&name.as_str()));
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
    fn whereabouts_are_removed_at_any_depth() {
        let payload = json!({
            "ip_address": "::1", "method": "password", "user_agent": {"a": 1},
            "more": [{"source_ip": 1, "kept": [[{"issued_user_agent": "x", "issued_from_ip": "y"}]]}],
        });
        let left = json!({"method": "password", "more": [{"kept": [[{}]]}]});
        assert_eq!(shown(&payload.to_string(), true), left);
        assert_eq!(shown(&payload.to_string(), false), payload);
    }

    #[test]
    fn a_payload_of_any_shape_is_passed_on() {
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
