//! Figures of the service over time, and the sizes of its tables.

use std::time::Duration;

use serde_json::{Value, json};

use crate::metrics::{samples, scraped};
use crate::support::{App, Client, eventually};

async fn names(staff: &Client, query: &str) -> Vec<String> {
    let listed = staff.get(&format!("/v1/admin/samples?{query}")).await.expect(200).body;
    let series = listed["data"].as_array().expect("a list").iter();
    series.map(|series| series["name"].as_str().expect("a name").to_owned()).collect()
}

/// Contract: staff 25 to 27. A figure has the name of its metric.
#[tokio::test]
async fn metrics_are_sampled_once_a_minute() {
    let app = scraped(App::simulated()).start().await;
    let (client, staff) = (app.client().await, app.staff().await);
    client.session().await;
    eventually(Duration::from_secs(40), "the process has reported", async || {
        (app.count("select count(*) from process_figures").await > 0).then_some(())
    })
    .await;
    let hurry = "update apalis.jobs set run_at = now()
                 where job_type = 'maintenance' and status = 'Pending' and idempotency_key like 'sample_service:%'";
    eventually(Duration::from_secs(30), "a sample is taken", async || {
        sqlx::query(hurry).execute(&app.database.pool).await.expect("a statement");
        (app.count("select count(*) from service_samples").await > 0).then_some(())
    })
    .await;
    let live = names(&staff, "names=service_sessions_live").await;
    let wanted = ["busy", "creating", "ready"].map(|status| format!("service_sessions_live{{status=\"{status}\"}}"));
    assert_eq!(live, wanted);
    let all = names(&staff, "").await;
    assert!(all.len() >= 35, "only {} figures: {all:?}", all.len());
    let bare = |name: &str| name.split(['{', ' ']).next().unwrap_or_default().to_owned();
    let metrics: Vec<_> = samples(&app.base_url).await.iter().map(|sample| bare(sample)).collect();
    let unknown: Vec<_> = all.iter().filter(|name| !metrics.contains(&bare(name))).collect();
    assert!(unknown.is_empty(), "no metric has the name of {unknown:?}");
    assert_eq!(names(&staff, "names=service_nothing").await, [""; 0]);

    // Two samples of one interval, and one from before the requested time.
    for (minutes, value) in [(11, 5), (12, 7), (200, 9)] {
        let insert = "insert into service_samples (at, figures)
                      values (date_bin('30 minutes', now(), 'epoch') - interval '1 hour' - make_interval(mins => $1),
                              jsonb_build_object('service_worker_slots', $2::int, 'service_panic_total', 1))";
        sqlx::query(insert).bind(minutes).bind(value).execute(&app.database.pool).await.expect("a row");
    }
    let since: String = sqlx::query_scalar(
        r#"select to_char(now() at time zone 'utc' - interval '3 hours', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"#,
    )
    .fetch_one(&app.database.pool)
    .await
    .expect("a time");
    let query = format!("names=service_worker_slots,service_panic_total&since={since}&step=1800");
    let listed = staff.get(&format!("/v1/admin/samples?{query}")).await.expect(200).body;
    let series = listed["data"].as_array().expect("a list");
    assert_eq!((&series[0]["name"], &series[0]["is_counter"]), (&json!("service_panic_total"), &Value::Bool(true)));
    assert_eq!((&series[1]["is_counter"], series[1]["points"][0]["value"].as_f64()), (&Value::Bool(false), Some(7.0)));

    for (name, wrong) in [("step", "59"), ("step", "86401"), ("since", "yesterday"), ("names", ",")] {
        staff.get(&format!("/v1/admin/samples?{name}={wrong}")).await.invalid(name);
    }
    staff.get("/v1/admin/samples?since=2020-01-01T00:00:00Z").await.invalid("step");
    staff.get("/v1/admin/samples?since=2020-01-01T00:00:00Z&step=3600").await.expect(200);
    app.stop().await;
}

/// Contract: staff 25; retention 14.
#[tokio::test]
async fn samples_are_purged_after_14_days() {
    let app = App::simulated().start().await;
    for days in [13, 15] {
        let insert = "insert into service_samples (at, figures) values (now() - make_interval(days => $1), '{}')";
        sqlx::query(insert).bind(days).execute(&app.database.pool).await.expect("a row");
    }
    app.run(&["sweep", "retention"]).await.code(0);
    let old = "select count(*) from service_samples where at < now() - interval '1 day'";
    assert_eq!(app.count(old).await, 1);
    app.stop().await;
}

/// Contract: staff 22, 28.
#[tokio::test]
async fn staff_reads_tables_and_usage_of_one_account() {
    let app = App::simulated().start().await;
    let (client, other, staff) = (app.client().await, app.client().await, app.staff().await);
    for client in [&client, &other] {
        client.session().await;
    }
    let tables = staff.get("/v1/admin/storage").await.expect(200).body;
    let tables = tables["data"].as_array().expect("a list");
    let sessions = tables.iter().find(|row| row["table"] == "sessions").expect("the table");
    assert_eq!(sessions["bound_kind"], "term");
    assert!(sessions["bytes"].as_i64() > Some(0), "{sessions}");
    let jobs = tables.iter().find(|row| row["table"] == "apalis.jobs").expect("the table");
    assert_eq!(jobs["bound"], Value::Null);

    let account = client.get("/v1/account/me").await.expect(200).body["id"].clone();
    let account = account.as_str().expect("an id");
    let used = staff.get(&format!("/v1/admin/usage?account_id={account}")).await.expect(200).body;
    let used = used["data"].as_array().expect("a list");
    assert_eq!((used.len(), &used[0]["account_id"]), (1, &json!(account)));
    staff.get("/v1/admin/usage?account_id=x").await.invalid("account_id");
    app.stop().await;
}
