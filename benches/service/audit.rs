//! The audit log: pages at any position, and an export.
//!
//! The table has two million rows, half of them of the reading account, so its rows are scattered as on a busy deployment. A
//! page costs an index walk from a point; ten million rows would add at most one level to the index.

use std::fs;

use kitfleet_domain::cursors::{CursorScope, CursorSigner};
use kitfleet_domain::database;
use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::Result;
use crate::report::{self, Samples};
use crate::service::{Client, Service};

/// And of all other accounts together.
const ROWS: i32 = 1_000_000;
const REQUESTS: usize = 1_000;
const EXPORTS: usize = 10;

pub async fn run() -> Result<()> {
    let settings = [("WORKER__DRIVER", "none"), ("RATE_LIMITS__CREDENTIAL_PER_MINUTE", "10000000")];
    let service = Service::start(&settings, 1).await?;
    let client = service.client("reader")?;
    let account: AccountId = client.get("/v1/account/me").await?.body["id"].as_str().ok_or("no id")?.parse()?;
    let mut conn = service.database().await?;
    load(&mut conn, account).await?;

    report::heading(&format!(
        "A page of 50 of the audit log, {ROWS} rows of the account's among as many others, in ms"
    ));
    let log = "/v1/account/audit-log";
    pages("the newest", &client, |_| log.to_owned()).await?;
    pages("the newest of a rare action", &client, |_| format!("{log}?action=account.login")).await?;
    pages("the newest of a common action", &client, |_| format!("{log}?action=session.created")).await?;
    let anywhere = deep(&mut conn, account, None).await?;
    pages("anywhere", &client, |n| format!("{log}?cursor={}", anywhere[n])).await?;
    let anywhere = deep(&mut conn, account, Some("account.login")).await?;
    pages("anywhere, of a rare action", &client, |n| format!("{log}?action=account.login&cursor={}", anywhere[n]))
        .await?;

    report::heading("An export of 10,000 rows, in milliseconds");
    for format in ["json", "csv"] {
        let path = format!("{log}/export?format={format}");
        client.read(&path).await?;
        let pid = service.pids()[0];
        fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
        let before = peak_kib(pid)?;
        let mut samples = Samples::default();
        for _ in 0..EXPORTS {
            samples.push(client.read(&path).await?);
        }
        report::durations(format, &samples, Some(1_000.0), Some(1_000.0));
        let growth = (peak_kib(pid)? - before) / 1_024.0;
        report::figure(
            &format!("{format}, the process's peak memory grows by"),
            growth,
            "MiB",
            "≤ 16 MiB",
            growth <= 16.0,
        );
    }
    Ok(())
}

/// Two million rows with ids spread over a year.
async fn load(conn: &mut PgConnection, account: AccountId) -> Result<()> {
    let others = "insert into accounts (id, email, email_key, name)
                  select gen_random_uuid(), n || '@example.com', n || '@example.com', 'Ada' from generate_series(1, 100) n";
    sqlx::query(others).execute(&mut *conn).await?;
    let rows = "with others as (select array_agg(id) as ids from accounts where id <> $1)
        insert into audit_log
            (id, account_id, actor_type, actor_account_id, action, target_resource_id, payload, ip_address, user_agent,
             created_at)
        select (lpad(to_hex(((extract(epoch from now()) - 31536000) * 1000)::bigint + n * 10000::bigint), 12, '0')
                   || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
               case when n % 2 = 0 then $1 else others.ids[1 + n % 100] end, 'customer',
               case when n % 2 = 0 then $1 else others.ids[1 + n % 100] end,
               case when n % 1000 < 2 then 'account.login' when n % 4 < 2 then 'session.created' else 'session.destroyed' end,
               'ses_' || gen_random_uuid(),
               jsonb_build_object('archetype', 'iphone-16-ios-18', 'purpose', 'production_customer', 'label', md5(n::text)),
               '203.0.113.9', 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)', now() - interval '1 year'
        from others, generate_series(1, $2) n";
    sqlx::query(rows).bind(account.as_uuid()).bind(2 * ROWS).execute(&mut *conn).await?;
    sqlx::raw_sql("vacuum analyze audit_log").execute(conn).await?;
    Ok(())
}

async fn pages(name: &str, client: &Client, path: impl Fn(usize) -> String) -> Result<()> {
    let mut samples = Samples::default();
    for n in 0..REQUESTS {
        samples.push(client.read(&path(n)).await?);
    }
    report::durations(name, &samples, None, None);
    let p95 = samples.quantile(0.95);
    report::figure(&format!("{name}, p95"), p95, "ms", "≤ 10 ms", p95 <= 10.0);
    Ok(())
}

/// At random positions, signed as the service signs them.
async fn deep(conn: &mut PgConnection, account: AccountId, action: Option<&str>) -> Result<Vec<String>> {
    let signer = CursorSigner::new(database::server_secret(&mut *conn, "cursors").await?);
    let scope = CursorScope { account, list: "audit_log", filters: &[action] };
    let places: Vec<Uuid> = sqlx::query_scalar(
        "select id from audit_log where account_id = $1 and ($2::text is null or action = $2) order by random() limit $3",
    )
    .bind(account.as_uuid())
    .bind(action)
    .bind(i64::try_from(REQUESTS)?)
    .fetch_all(conn)
    .await?;
    Ok(places.into_iter().map(|place| signer.sign(scope, place)).collect())
}

fn peak_kib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no peak")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
