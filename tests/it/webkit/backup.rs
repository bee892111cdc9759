//! What is kept of a deployment, and what comes back of that (contract: operators 9).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use kitfleet_api::permissions::ROUTES;
use kitfleet_domain::accounts::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};

use super::profiles::Scene;
use crate::oauth;
use crate::support::people::{PASSWORD, challenge_of};
use crate::support::routes::sample;
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, postgres};

/// What is another thing each time it is read: counted, measured, or made for whoever asks. Exports are recorded.
const OF_THE_MOMENT: [&str; 12] = [
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/v1/account/audit-log/export",
    "/v1/account/notifications/stream",
    "/v1/admin/jobs",
    "/v1/admin/jobs/stats",
    "/v1/admin/workers",
    "/v1/agent-sessions/{id}/livekit-token",
    "/v1/profiles/{id}/export",
    "/v1/status",
];

/// Members that tell of reading itself.
const OF_READING: [&str; 3] = ["last_used_at", "last_seen_at", "request_id"];

/// A program of the newest PostgreSQL that is installed, which Debian leaves out of the `PATH`.
fn postgres_program(name: &str) -> Command {
    Command::new(postgres::programs().expect("a PostgreSQL").join(name))
}

fn succeed(mut command: Command) {
    let done = command.output().expect("a program");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Every id that a text holds as a whole value.
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

fn without_reading(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(without_reading),
        Value::Object(members) => {
            members.retain(|name, _| !OF_READING.contains(&&**name));
            members.values_mut().for_each(without_reading);
        }
        _ => {}
    }
}

/// Whatever this client can read, by its path: all lists, and all that these name.
async fn all_that_it_reads(client: &Client) -> BTreeMap<String, Value> {
    let routes = ROUTES.iter().filter(|route| route.method == Method::GET && !OF_THE_MOMENT.contains(&&*route.path));
    let (single, lists): (Vec<_>, Vec<_>) = routes.partition(|route| route.path.contains("{id}"));
    let mut read = BTreeMap::new();
    let mut known = BTreeSet::new();
    let mut read_all = async |paths: Vec<String>, known: &mut BTreeSet<String>| {
        for path in paths {
            let answer = client.get(&path).await;
            if answer.status == 200 {
                let mut body = answer.body;
                ids(&body, known);
                without_reading(&mut body);
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

/// Fills an account with one of everything that lasts.
async fn use_everything(app: &App, client: &Client, sink: &Sink) -> Value {
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
    let staff = app.staff().await;
    let incident = json!({"title": "Mails are late", "message": "We look.", "impact": "minor", "components": ["mail"], "reason": "test"});
    staff.post("/v1/admin/incidents", incident).await.expect(201);
    hook
}

/// Contract: operators 9. A dump of the database and the key that is kept elsewhere are a whole deployment: on an empty machine everything
/// that could be read reads as before, credentials are good, and what was sealed opens, profiles too.
#[tokio::test]
async fn a_dump_and_the_key_are_all_there_is_to_keep() {
    let sink = Sink::start().await;
    let app = App::webkit().with_second_factors().delivering_to(&sink);
    let mut scene = Scene::of(app.start().await).await;
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    scene.destroy(&first).await;
    scene.until_saved(1).await;
    scene.client.post(&format!("/v1/profiles/{}/snapshots", scene.profile), json!({})).await.expect(201);
    let hook = use_everything(&scene.app, &scene.client, &sink).await;
    let ada = scene.app.person(Tier::Enterprise).await;
    let authenticator = scene.app.enroll(&ada).await;
    let program = oauth::created(&scene.client, &["read"]).await;
    let staff = scene.app.staff().await;

    let readers = [&scene.client, &ada.client, &staff];
    let mut before = Vec::new();
    for reader in readers {
        before.push(all_that_it_reads(reader).await);
    }
    assert!(before[0].len() > 30 && before[2].len() > 5, "{:?}", before[0].keys());

    scene.app.signal(0, Signal::SIGTERM).await;
    let (dump, url) = (scene.app.data_dir.path().join("kitfleet.dump"), scene.app.database.url());
    // What follows is for our own client.
    let url = url.split('?').next().expect("an address");
    let mut save = postgres_program("pg_dump");
    save.args(["--format", "custom", "--file"]).arg(&dump).args(["--dbname", url]);
    succeed(save);
    fs::remove_dir_all(scene.app.data_dir.path().join("data")).expect("the machine's folder");
    let empty = "drop schema public, apalis cascade; create schema public";
    sqlx::raw_sql(empty).execute(&scene.app.database.pool).await.expect("an empty database");
    let mut restore = postgres_program("pg_restore");
    restore.args(["--exit-on-error", "--no-owner", "--dbname", url]).arg(&dump);
    succeed(restore);
    scene.app.start(Role::Up);
    scene.app.ready().await;

    for (reader, before) in readers.into_iter().zip(before) {
        let after = all_that_it_reads(reader).await;
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
