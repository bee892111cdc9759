//! Backup and restore of a deployment (contract: operators 9).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use kitfleet_api::permissions::ROUTES;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::profiles::Scene;
use crate::card::events::subscription;
use crate::livekit::SEALS;
use crate::oauth;
use crate::support::card_provider::{CardProvider, event, now};
use crate::support::crypto_processor::CryptoProcessor;
use crate::support::database::Database;
use crate::support::people::{PASSWORD, challenge_of};
use crate::support::routes::sample;
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, postgres};

/// Their response differs at each read. Reading an export also writes an audit row.
const VOLATILE_ROUTES: [&str; 18] = [
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/v1/account/audit-log/export",
    "/v1/account/notifications/stream",
    "/v1/admin/capacity",
    "/v1/admin/jobs",
    "/v1/admin/jobs/loads",
    "/v1/admin/jobs/stats",
    "/v1/admin/jobs/{id}",
    "/v1/admin/samples",
    "/v1/admin/storage",
    "/v1/admin/workers",
    "/v1/admin/workers/{id}/impact",
    "/v1/agent-sessions/{id}/livekit-token",
    "/v1/profiles/{id}/export",
    "/v1/status",
];

/// They change when they are read.
const VOLATILE_MEMBERS: [&str; 3] = ["last_used_at", "last_seen_at", "request_id"];

/// The newest installed one. Debian does not put it on the `PATH`.
fn postgres_program(name: &str) -> Command {
    Command::new(postgres::programs().expect("a PostgreSQL").join(name))
}

fn succeed(mut command: Command) {
    let done = command.output().expect("a program");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn ids(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let id = text.split_once('_').filter(|(_, rest)| uuid::Uuid::try_parse(rest).is_ok());
            found.extend(id.map(|_| text.clone()));
        }
        Value::Array(values) => values.iter().for_each(|value| ids(value, found)),
        Value::Object(members) => members.values().for_each(|value| ids(value, found)),
        _ => {}
    }
}

fn remove_volatile_members(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(remove_volatile_members),
        Value::Object(members) => {
            members.retain(|name, _| !VOLATILE_MEMBERS.contains(&&**name));
            members.values_mut().for_each(remove_volatile_members);
        }
        _ => {}
    }
}

/// By path: all lists, and all resources whose ids these contain.
async fn read_everything(client: &Client) -> BTreeMap<String, Value> {
    let routes = ROUTES.iter().filter(|route| route.method == Method::GET && !VOLATILE_ROUTES.contains(&&*route.path));
    let (single, lists): (Vec<_>, Vec<_>) = routes.partition(|route| route.path.contains("{id}"));
    let mut read = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut read_all = async |paths: Vec<String>, known: &mut BTreeSet<String>| {
        for path in paths {
            let answer = client.get(&path).await;
            if answer.status == 200 {
                let mut body = answer.body;
                ids(&body, known);
                remove_volatile_members(&mut body);
                read.insert(path, body);
            }
        }
    };
    read_all(lists.iter().map(|route| sample(&Method::GET, &route.path).path).collect(), &mut known).await;
    let of_known = |known: &BTreeSet<String>| {
        let paths = single.iter().flat_map(|route| {
            let example = sample(&Method::GET, &route.path).path;
            let prefix = example.split('/').find_map(|segment| segment.split_once('_')).expect("an id").0.to_owned();
            let of_kind = known.iter().filter(move |id| id.split_once('_').is_some_and(|(kind, _)| kind == prefix));
            of_kind.map(|id| route.path.replace("{id}", id))
        });
        paths.collect::<Vec<_>>()
    };
    let first = of_known(&known);
    read_all(first, &mut known).await;
    read
}

/// One of every durable resource in an account, and further resources in other accounts. Returns its webhook endpoint and the
/// client of an account with purchases.
async fn create_everything(app: &App, client: &Client, sink: &Sink) -> (Value, Client) {
    let hook = json!({"url": sink.url("/kept"), "events": ["session.failed"]});
    let hook = client.post("/v1/webhooks", hook).await.expect(201).body;
    let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
    let agent = agent["id"].as_str().expect("an id");
    let said = json!({"message": "scroll down"});
    client.post(&format!("/v1/agent-sessions/{agent}/message"), said).await.expect(200);
    client.post("/v1/recipes", json!({"agent_session_id": agent, "label": "Down"})).await.expect(201);
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    let proxy = json!({"label": "Home", "scheme": "socks5", "host": "proxy.example.com", "port": 1080, "username": "kit", "password": "secret"});
    client.post("/v1/account/me/proxies", proxy).await.expect(201);
    client.set_key("anthropic", "sk-ant-0123456789").await.expect(204);
    client.post("/v1/team/invites", json!({"email": "eve@example.com", "role": "member"})).await.expect(202);
    // Purchases with both payment providers.
    let (buyer, paying) = app.customer(Tier::ApiStarter).await;
    paying.post("/v1/billing/crypto-checkout", json!({"product": "api_builder"})).await.expect(201);
    let purchase =
        json!({"tier": "api_builder", "success_url": "https://example.com/", "cancel_url": "https://example.com/"});
    let request = paying.request(Method::POST, "/v1/billing/checkout-session").header("idempotency-key", "one");
    paying.send(request.json(&purchase)).await.expect(201);
    let bought = subscription("sub_1", buyer, "api_builder", "active");
    app.deliver_card_event(&event("evt_1", "customer.subscription.created", now(), &bought)).await.expect(200);
    // A link to a live session, a credential of a desktop app, and a room of a LiveKit machine.
    let shown = client.session().await;
    client.post(&format!("/v1/sessions/{shown}/live-links"), json!({"expires_in": 3_600})).await.expect(201);
    client.delete(&format!("/v1/sessions/{shown}")).await.expect(204);
    let owner = app.person(Tier::Free).await;
    app.activated(&owner).await.get("/v1/account/me").await.expect(200);
    assert!(app.register("studio", "a-secret-of-LiveKit", Some(4), SEALS).await);
    app.stranger().post("/v1/status/subscribers", json!({"email": "eve@example.com"})).await.expect(200);
    let staff = app.staff().await;
    let incident = json!({"title": "Mails are late", "message": "We look.", "impact": "minor", "components": ["mail"], "reason": "test"});
    staff.post("/v1/admin/incidents", incident).await.expect(201);
    (hook, paying)
}

async fn contents(database: &Database) -> BTreeMap<String, (i64, Option<String>)> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select table_schema || '.' || table_name from information_schema.tables
         where table_type = 'BASE TABLE' and table_schema in ('public', 'apalis')",
    )
    .fetch_all(&database.pool)
    .await
    .expect("the tables");
    let mut contents = BTreeMap::new();
    for table in tables {
        let read = format!("select count(*), md5(string_agg(r::text, '|' order by r::text)) from {table} r");
        let content = sqlx::query_as(AssertSqlSafe(read)).fetch_one(&database.pool).await.expect("a table");
        contents.insert(table, content);
    }
    contents
}

/// They must have rows for this test to be meaningful.
const DURABLE_TABLES: [&str; 22] = [
    "accounts",
    "agent_sessions",
    "agent_steps",
    "agent_turns",
    "api_keys",
    "audit_log",
    "byok_keys",
    "card_customers",
    "card_subscriptions",
    "crypto_orders",
    "device_authorizations",
    "incidents",
    "live_links",
    "mac_nodes",
    "mfa_factors",
    "oauth_clients",
    "profiles",
    "profile_snapshots",
    "proxies",
    "recipes",
    "status_subscribers",
    "webhook_endpoints",
];

/// Contract: operators 9. On an empty machine, every resource reads as before, and encrypted data, including profiles, can be
/// decrypted.
#[tokio::test]
async fn dump_and_deployment_key_restore_everything() {
    let (sink, card, crypto) = (Sink::start().await, CardProvider::start().await, CryptoProcessor::start().await);
    let app = App::webkit().with_second_factors().delivering_to(&sink);
    let app = app.selling_at(&card.base_url).paid_in_crypto_at(&crypto.base_url);
    let mut scene = Scene::of(app.start().await).await;
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    scene.destroy(&first).await;
    scene.until_saved(1).await;
    scene.client.post(&format!("/v1/profiles/{}/snapshots", scene.profile), json!({})).await.expect(201);
    let (hook, paying) = create_everything(&scene.app, &scene.client, &sink).await;
    let ada = scene.app.person(Tier::Enterprise).await;
    let authenticator = scene.app.enroll(&ada).await;
    let program = oauth::create_client(&scene.client, &["read"]).await;
    let staff = scene.app.staff().await;

    let readers = [&scene.client, &ada.client, &staff, &paying];
    let mut before = Vec::new();
    for reader in readers {
        before.push(read_everything(reader).await);
    }
    assert!(before[0].len() > 30 && before[2].len() > 5, "{:?}", before[0].keys());

    scene.app.signal(0, Signal::SIGTERM).await;
    let (dump, url) = (scene.app.data_dir.path().join("kitfleet.dump"), scene.app.database.url());
    // The rest of the URL is only for the service's own client.
    let url = url.split('?').next().expect("an address");
    let mut save = postgres_program("pg_dump");
    save.args(["--format", "custom", "--file"]).arg(&dump).args(["--dbname", url]);
    succeed(save);
    fs::remove_dir_all(scene.app.data_dir.path().join("data")).expect("the machine's folder");
    let restored = Database::create_empty().await;
    let mut restore = postgres_program("pg_restore");
    let to = restored.url();
    let to = to.split('?').next().expect("an address");
    restore.args(["--exit-on-error", "--no-owner", "--dbname", to]).arg(&dump);
    succeed(restore);
    let (kept, there) = (contents(&scene.app.database).await, contents(&restored).await);
    assert_eq!(kept, there);
    for table in DURABLE_TABLES {
        assert!(there[&format!("public.{table}")].0 > 0, "nothing in {table}");
    }
    let first = std::mem::replace(&mut scene.app.database, restored);
    first.drop().await;
    scene.app.start(Role::Up);
    scene.app.ready().await;

    for (reader, before) in readers.into_iter().zip(before) {
        let after = read_everything(reader).await;
        for (path, body) in &before {
            assert_eq!(after.get(path), Some(body), "{path}");
        }
        assert_eq!(after.len(), before.len());
    }
    let session = scene.launch().await;
    scene.assert_remembered(&session, "ada").await;
    let login = scene.app.log_in(&ada.email, PASSWORD).await;
    let proof =
        json!({"challenge_token": challenge_of(&login), "code": scene.app.fresh_code(&ada, &authenticator).await});
    scene.app.stranger().post("/v1/auth/mfa/challenge", proof).await.expect(200);
    oauth::token(&scene.app, &program).await.get("/v1/account/me").await.expect(200);
    let test = format!("/v1/webhooks/{}/test", hook["id"].as_str().expect("an id"));
    scene.client.post(&test, json!({})).await.expect(202);
    sink.receives("/kept", 1).await;
    let found = scene.app.run(&["doctor", "--json"]).await.json();
    let sealed = found.as_array().into_iter().flatten().find(|check| check["subject"] == "sealed secrets").cloned();
    assert_eq!(sealed.expect("a check")["status"], "ok");
    scene.app.stop().await;
}
