//! Webhook deliveries, shown as jobs of the queue [`AttemptJob::QUEUE`].
//!
//! Their rows are the queue; apalis's tables do not contain them. A dead letter is `failed`, and a delivery that was
//! given up because its endpoint went away is `killed`. Request and response bodies belong to the customer and are not
//! shown.

use kitfleet_types::ids::DeliveryId;
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use super::{JobRow, QueueStats};
use crate::webhooks::AttemptJob;

const STATUSES: &str = "status (of_delivery, of_job) as (values ('pending', 'pending'), ('in_flight', 'running'),
                            ('delivered', 'done'), ('dlq', 'failed'), ('failed', 'killed'))";

const COLUMNS: &str = "
    'wdl_' || d.id as id, $1 as queue, status.of_job as status,
    json_build_object('account_id', 'acc_' || d.account_id, 'endpoint_id', 'whk_' || d.endpoint_id, 'event_id', d.event_id,
                      'event_type', d.event_type) as body,
    d.attempts, case when d.status = 'pending' then d.next_attempt_at end as run_at, null as lock_by,
    case when d.status = 'in_flight' then d.updated_at end as lock_at,
    case when d.next_attempt_at is null then d.updated_at end as done_at,
    case when d.last_response_status is not null or d.last_error is not null
         then json_build_object('last_response_status', d.last_response_status, 'last_error', d.last_error) end as result";

/// Newest deliveries, from the end of the primary key.
const NEWEST: &str = "select id from webhook_deliveries where id < $3 order by id desc limit $2";

/// An index returns the newest of each endpoint by status, and the newest of these are selected. A scan from the end of
/// the primary key would read the whole table for a rare status.
const NEWEST_WITH: &str = "
    select d.id from webhook_endpoints e
    cross join lateral (
        select id from webhook_deliveries
        where endpoint_id = e.id and status = (select of_delivery from status where of_job = lower($4)) and id < $3
        order by id desc limit $2
    ) d
    order by d.id desc limit $2";

pub(super) async fn list(
    conn: &mut PgConnection,
    status: Option<&str>,
    before: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<JobRow>> {
    let newest = if status.is_some() { NEWEST_WITH } else { NEWEST };
    let select = format!(
        "with {STATUSES}, newest as ({newest})
         select {COLUMNS} from newest join webhook_deliveries d using (id) join status on status.of_delivery = d.status
         order by d.id desc"
    );
    let select = sqlx::query_as(AssertSqlSafe(select)).bind(AttemptJob::QUEUE.name).bind(limit).bind(before);
    let select = if let Some(status) = status { select.bind(status) } else { select };
    select.fetch_all(conn).await
}

pub(super) async fn show(conn: &mut PgConnection, id: DeliveryId) -> sqlx::Result<Option<JobRow>> {
    let select = format!(
        "with {STATUSES}
         select {COLUMNS} from webhook_deliveries d join status on status.of_delivery = d.status where d.id = $2"
    );
    sqlx::query_as(AssertSqlSafe(select)).bind(AttemptJob::QUEUE.name).bind(id).fetch_optional(conn).await
}

/// Counts all rows, which takes 0.2 s per million. The oldest waiting delivery is one that can be sent: deliveries of a
/// paused endpoint wait for their customer.
pub(super) async fn stats(conn: &mut PgConnection) -> sqlx::Result<Option<QueueStats>> {
    sqlx::query_as(
        "select $1 as queue,
                count(*) filter (where status = 'pending') as pending,
                count(*) filter (where status = 'in_flight') as running,
                count(*) filter (where status = 'delivered') as done,
                count(*) filter (where status = 'dlq') as failed,
                count(*) filter (where status = 'failed') as killed,
                (select extract(epoch from now() - min(d.next_attempt_at))::float8
                 from webhook_deliveries d
                 join webhook_endpoints e on e.id = d.endpoint_id and e.active and e.disabled_at is null
                 where d.due and d.status = 'pending') as oldest_pending_seconds
         from webhook_deliveries having count(*) > 0",
    )
    .bind(AttemptJob::QUEUE.name)
    .fetch_optional(conn)
    .await
}
