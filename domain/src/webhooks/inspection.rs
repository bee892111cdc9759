//! Endpoints of all customers, as staff see them (contract: staff 32). Paths and parameters of addresses belong to the customer
//! and are not shown.

use kitfleet_types::ids::{AccountId, WebhookId};
use kitfleet_types::timestamp::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

#[derive(Debug)]
pub struct EndpointRow {
    pub id: WebhookId,
    pub account_id: AccountId,
    pub account_email: String,
    pub host: String,
    pub is_active: bool,
    pub disabled_at: Option<Timestamp>,
    pub consecutive_failures: i32,
    pub delivered: i64,
    pub dead_letters: i64,
    pub last_success_at: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    /// Of the newest dead letter.
    pub last_error: Option<String>,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Copy)]
pub struct Filter {
    pub only_disabled: bool,
    pub account: Option<AccountId>,
    pub before: Option<WebhookId>,
    pub limit: i64,
}

/// The newest first.
pub async fn list(conn: &mut PgConnection, filter: Filter) -> sqlx::Result<Vec<EndpointRow>> {
    sqlx::query_as!(
        EndpointRow,
        r#"select e.id, e.account_id, a.email as account_email,
                  coalesce(substring(e.url from '^[a-zA-Z]+://(?:[^/@?#]*@)?([^/?#]+)'), '') as "host!", e.active as is_active,
                  e.disabled_at, e.consecutive_failures, e.delivered, e.dlq as dead_letters, e.last_success_at, e.last_failure_at,
                  (select delivery_error(d.last_error, d.last_response_status) from webhook_deliveries d
                   where d.endpoint_id = e.id and d.status = 'dlq' order by d.id desc limit 1) as last_error,
                  e.created_at
           from webhook_endpoints e join accounts a on a.id = e.account_id
           where e.id = any(array(
               (select id from webhook_endpoints
                where $1 and disabled_at is not null and deleted_at is null and ($2::uuid is null or account_id = $2) and id < $3
                order by id desc limit $4)
               union all
               (select id from webhook_endpoints
                where not $1 and deleted_at is null and ($2 is null or account_id = $2) and id < $3 order by id desc limit $4)
           )) order by e.id desc"#,
        filter.only_disabled,
        filter.account as _,
        filter.before.map_or(Uuid::max(), |before| before.as_uuid()),
        filter.limit,
    )
    .fetch_all(conn)
    .await
}
