//! Rows that the service has written, for data that no route returns.

use std::time::Duration;

use kitfleet_types::ids::AccountId;
use serde_json::Value;
use sqlx::FromRow;
use uuid::Uuid;

use super::{App, eventually};

#[derive(Debug, FromRow)]
pub struct AuditRow {
    pub actor_type: String,
    pub actor_account_id: Option<Uuid>,
    pub actor_key_id: Option<Uuid>,
    pub action: String,
    pub target_resource_id: Option<String>,
    pub payload: Value,
    pub ip_address: Option<String>,
    pub user_agent: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct IntentRow {
    pub kind: String,
    pub status: String,
}

pub fn uuid_of(id: &str) -> Uuid {
    let (_, uuid) = id.split_once('_').expect("a prefix");
    uuid.parse().expect("a UUID")
}

impl App {
    /// Oldest first.
    pub async fn events(&self, session: &str) -> Vec<(String, Value)> {
        sqlx::query_as("select type, data from events where data->>'session_id' = $1 order by created_at, id")
            .bind(session)
            .fetch_all(&self.database.pool)
            .await
            .expect("the events")
    }

    /// Oldest row first.
    pub async fn audit(&self, account: AccountId) -> Vec<AuditRow> {
        sqlx::query_as(
            "select actor_type, actor_account_id, actor_key_id, action, target_resource_id, payload, ip_address, user_agent
             from audit_log where account_id = $1 order by created_at, id",
        )
        .bind(account.as_uuid())
        .fetch_all(&self.database.pool)
        .await
        .expect("the audit log")
    }

    /// Oldest first. The first one opens the session's browser.
    pub async fn intents(&self, session: &str) -> Vec<IntentRow> {
        sqlx::query_as("select kind, status from intents where session_id = $1 order by id")
            .bind(uuid_of(session))
            .fetch_all(&self.database.pool)
            .await
            .expect("the intents")
    }

    pub async fn status_of(&self, session: &str) -> String {
        sqlx::query_scalar("select status from sessions where id = $1")
            .bind(uuid_of(session))
            .fetch_one(&self.database.pool)
            .await
            .expect("the session")
    }

    pub async fn busy(&self, session: &str) {
        eventually(Duration::from_secs(10), "the session is busy", async || {
            (self.status_of(session).await == "busy").then_some(())
        })
        .await;
    }

    pub async fn worker_of(&self, session: &str) -> String {
        sqlx::query_scalar("select 'wrk_' || worker_id from sessions where id = $1")
            .bind(uuid_of(session))
            .fetch_one(&self.database.pool)
            .await
            .expect("the session")
    }

    pub async fn address_of(&self, account: AccountId) -> String {
        let email = sqlx::query_scalar("select email from accounts where id = $1").bind(account.as_uuid());
        email.fetch_one(&self.database.pool).await.expect("the account")
    }

    /// Without parameters.
    pub async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.database.pool).await.expect("a count")
    }

    pub async fn execute(&self, statement: &'static str, id: Uuid) {
        let done = sqlx::query(statement).bind(id).execute(&self.database.pool).await.expect("a statement");
        assert_ne!(done.rows_affected(), 0, "{statement} touched nothing");
    }

    /// As text or as bytes.
    pub async fn tables_with(&self, needle: &str) -> Vec<String> {
        let tables: Vec<String> = sqlx::query_scalar(
            "select format('%I.%I', table_schema, table_name) from information_schema.tables
             where table_type = 'BASE TABLE' and table_schema in ('public', 'apalis')",
        )
        .fetch_all(&self.database.pool)
        .await
        .expect("the tables");
        assert!(tables.len() > 8, "the catalogue is not whole: {tables:?}");
        let mut found = Vec::new();
        for table in tables {
            let query = format!(
                "select exists(select from {table} t where position($1 in t::text) > 0
                               or position(encode(convert_to($1, 'UTF8'), 'hex') in t::text) > 0)"
            );
            let holds: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(query))
                .bind(needle)
                .fetch_one(&self.database.pool)
                .await
                .expect("a look at a table");
            if holds {
                found.push(table);
            }
        }
        found
    }
}
