//! Check and rotation of the deployment's encryption key (contract: command-line 15 to 17; operators 2).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_domain::area::RowKey;
use kitfleet_domain::areas;
use kitfleet_domain::vault::Vault;
use kitfleet_types::ids::{RecipeId, StepId, TurnId};
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use regex::Regex;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::livekit::SEALS;
use crate::metrics::{samples, scraped};
use crate::support::app::free_port;
use crate::support::commands::{CommandOutput, run};
use crate::support::people::{Authenticator, ENCRYPTION_KEY, Person};
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually};
use crate::webhooks;

/// Retired; [`SEALS`] has the same bytes.
const OLD: &str = ENCRYPTION_KEY;
const NEW: [u8; 32] = *b"the new key of this deployment!!";
const OTHER: [u8; 32] = *b"no key that this deployment has!";

const NOT_SEALED_BY_THE_VAULT: [&str; 28] = [
    "agent_message_receipts.fingerprint",
    "api_keys.key_hash",
    "device_authorizations.code_hash",
    "identity_flows.browser_hash",
    "identity_flows.state_hash",
    "intents.content",
    // Sealed to the one worker that opens it, as are the secrets of `proxy_checks` and `session_proxies`.
    "intents.sealed",
    "live_links.secret_hash",
    "live_tickets.ticket_hash",
    "mail_links.token_hash",
    "mfa_challenges.token_hash",
    "mfa_factors.recovery_salt",
    "oauth_clients.prev_secret_hash",
    "oauth_clients.secret_hash",
    "oauth_tokens.token_hash",
    "profile_store_chunks.bytes",
    "proxy_checks.sealed_secrets",
    // Sealed with the key of its recording.
    "recording_segments.content",
    "recovery_codes.code_hash",
    "server_secrets.value",
    "session_proxies.sealed_secrets",
    "staff_credentials.key_hash",
    "status_subscribers.token_hash",
    "team_invites.token_hash",
    "trace_links.secret_hash",
    "web_sessions.token_hash",
    "workers.live_fingerprint",
    "workers.public_key",
];

fn base64_of(key: [u8; 32]) -> String {
    STANDARD.encode(key)
}

type Environment = Vec<(String, String)>;

fn variable(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

impl App {
    async fn restart_with(&mut self, variables: &Environment) {
        let running = self.started() - 1;
        self.signal(running, Signal::SIGTERM).await;
        let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.start_with(Role::Up, &variables);
        self.ready().await;
    }

    async fn run_with(&self, args: &[&str], variables: &Environment) -> CommandOutput {
        let mut command = self.command(args);
        command.envs(variables.iter().cloned());
        run(command, "").await
    }

    /// With owner of the secret, purpose and sealed bytes of each row.
    async fn sealed_columns(&self) -> Vec<(String, Vec<(String, &'static str, Vec<u8>)>)> {
        let mut columns = Vec::new();
        for sealed in areas::sealed() {
            for (column, owner) in sealed.columns {
                let part = sealed.part.unwrap_or("null");
                let select = format!(
                    "select {}, {part}::text, {column} from {} where {column} is not null",
                    sealed.id, sealed.table
                );
                let rows: Vec<(Uuid, Option<String>, Vec<u8>)> =
                    sqlx::query_as(AssertSqlSafe(select)).fetch_all(&self.database.pool).await.expect("the column");
                let rows =
                    rows.into_iter().map(|(id, part, bytes)| (owner(&RowKey { id, part }), sealed.purpose, bytes));
                columns.push((format!("{}.{column}", sealed.table), rows.collect()));
            }
        }
        columns
    }

    /// Those that this key alone opens, and all secrets.
    async fn opened_with(&self, key: [u8; 32]) -> (usize, usize) {
        let vault = Vault::new(key, &[]);
        let columns = self.sealed_columns().await;
        let rows: Vec<_> = columns.iter().flat_map(|(_, rows)| rows).collect();
        let opened = rows.iter().filter(|(owner, purpose, bytes)| vault.open(purpose, owner, bytes).is_ok());
        (opened.count(), rows.len())
    }

    async fn execute_sealed(&self, statement: &'static str, id: Uuid, sealed: &[u8]) {
        let done =
            sqlx::query(statement).bind(id).bind(sealed).execute(&self.database.pool).await.expect("a statement");
        assert_eq!(done.rows_affected(), 1, "{statement}");
    }
}

/// Contract: command-line 15. A new column fails here until it is declared or listed above.
#[tokio::test]
async fn every_sealed_column_of_the_schema_is_declared() {
    let app = App::simulated().start().await;
    let columns: Vec<String> = sqlx::query_scalar(
        "select table_name || '.' || column_name from information_schema.columns
         where table_schema = 'public' and data_type = 'bytea'
         and table_name in (select table_name from information_schema.tables where table_type = 'BASE TABLE')",
    )
    .fetch_all(&app.database.pool)
    .await
    .expect("the columns");
    let columns: BTreeSet<_> = columns.iter().map(String::as_str).filter(|column| !column.starts_with('_')).collect();
    let declared: BTreeSet<_> = areas::sealed()
        .flat_map(|sealed| sealed.columns.iter().map(|(column, _)| format!("{}.{column}", sealed.table)))
        .collect();
    let declared: BTreeSet<_> = declared.iter().map(String::as_str).collect();
    let others = BTreeSet::from(NOT_SEALED_BY_THE_VAULT);
    assert_eq!(
        columns.difference(&(&declared | &others)).collect::<Vec<_>>(),
        <[&&str; 0]>::default(),
        "columns that are not listed"
    );
    assert_eq!(
        (&declared | &others).difference(&columns).collect::<Vec<_>>(),
        <[&&str; 0]>::default(),
        "listed columns that do not exist"
    );
    assert_eq!(declared.intersection(&others).collect::<Vec<_>>(), <[&&str; 0]>::default(), "columns listed twice");
    app.stop().await;
}

struct Seeds {
    ada: Person,
    authenticator: Authenticator,
    client: Client,
    agent: String,
    recipe: String,
    recorded: String,
    endpoint: String,
}

async fn send_message(client: &Client, agent: &str, key: &str) -> Value {
    let path = format!("/v1/agent-sessions/{agent}/message");
    let message = json!({"message": "take a screenshot"});
    client
        .send(client.request(Method::POST, &path).header("idempotency-key", key).json(&message))
        .await
        .expect(200)
        .body
}

impl Seeds {
    /// Through the API if a request can create the secret.
    async fn plant(app: &App, sink: &Sink) -> Self {
        let old = Vault::new(SEALS, &[]);
        let ada = app.person(Tier::Free).await;
        let authenticator = app.enroll(&ada).await;
        let client = app.client().await;
        let endpoint = webhooks::id_of(&webhooks::create(&client, &sink.url("/ok"), &["session.failed"]).await);
        client.post(&format!("/v1/webhooks/{endpoint}/rotate-secret"), json!({})).await.expect(200);
        let socks5 = json!({"label": "Office", "scheme": "socks5", "host": "proxy.example.com", "port": 1080,
                            "username": "kit", "password": "sesame"});
        client.post("/v1/account/me/proxies", socks5).await.expect(201);
        let [private, public] = [[7; 32], [8; 32]].map(base64_of);
        let config = format!(
            "[Interface]\nPrivateKey = {private}\nAddress = 10.9.0.2/32\nDNS = 10.9.0.1\n\n\
             [Peer]\nPublicKey = {public}\nAllowedIPs = 0.0.0.0/0\nEndpoint = vpn.example.com:51820\n"
        );
        let tunnel = json!({"label": "Tunnel", "scheme": "wireguard", "config": config});
        client.post("/v1/account/me/proxies", tunnel).await.expect(201);
        client.profile().await;
        assert!(app.register("mac-1", "secret-of-a-livekit-server", None, SEALS).await);

        let agent = client.agent().await;
        send_message(&client, &agent, "before").await;
        let recipe =
            client.post("/v1/recipes", json!({"agent_session_id": agent, "label": "Sign in"})).await.expect(201);
        let recipe = recipe.body["id"].as_str().expect("an id").to_owned();
        let recorded = client.session_with(json!({"record": "steps"})).await;
        client.navigate(&recorded, "https://example.com/").await.expect(200);
        eventually(Duration::from_secs(10), "the recording is stored", async || {
            (app.count("select count(*) from recordings").await > 0).then_some(())
        })
        .await;
        client.delete(&format!("/v1/sessions/{recorded}")).await.expect(204);
        // Set last, because with a provider key a model would read the messages.
        client.set_key("anthropic", "sk-ant-a-key-of-this-test").await.expect(204);
        // Columns that no request fills with the simulated driver.
        let turn: Uuid = sqlx::query_scalar("select id from agent_turns limit 1")
            .fetch_one(&app.database.pool)
            .await
            .expect("a turn");
        let request = old.seal("agents", &TurnId::from(turn).to_string(), b"{}");
        app.execute_sealed("update agent_turns set sealed_request = $2 where id = $1", turn, &request).await;
        let step: Uuid = sqlx::query_scalar("select id from agent_steps limit 1")
            .fetch_one(&app.database.pool)
            .await
            .expect("a step");
        let sealed = |text: &str| old.seal("agents", &StepId::from(step).to_string(), text.as_bytes());
        app.execute_sealed("update agent_steps set sealed_shown = $2 where id = $1", step, &sealed("[]")).await;
        let origins = sealed(r#"{"named": [], "seen": []}"#);
        app.execute_sealed("update agent_steps set sealed_text_origins = $2 where id = $1", step, &origins).await;
        Self { ada, authenticator, client, agent, recipe, recorded, endpoint }
    }

    /// Uses some of the secrets.
    async fn assert_readable(&self, app: &App, sink: &Sink) {
        let code = app.fresh_code(&self.ada, &self.authenticator).await;
        self.ada.client.post("/v1/auth/mfa/step-up", json!({"code": code})).await.expect(200);
        self.client.get(&format!("/v1/recipes/{}", self.recipe)).await.expect(200);
        let events = self.client.get(&format!("/v1/sessions/{}/timeline", self.recorded)).await.expect(200).body;
        assert!(events["data"].as_array().is_some_and(|events| !events.is_empty()), "{events}");
        let transcript =
            self.client.get(&format!("/v1/agent-sessions/{}/transcript", self.agent)).await.expect(200).body;
        assert!(transcript.to_string().contains("take a screenshot"), "{transcript}");
        let signed = sink.received("/ok").len();
        webhooks::test_event(&self.client, &self.endpoint).await;
        eventually(Duration::from_secs(20), "a webhook is signed", async || {
            (sink.received("/ok").len() > signed).then_some(())
        })
        .await;
    }
}

/// For each kind: resealed, already sealed, unreadable.
fn counts(ran: &CommandOutput) -> BTreeMap<String, (u64, u64, u64)> {
    let kinds = ran.json();
    let kinds = kinds.as_array().expect("a list").iter();
    let count = |kind: &Value, name: &str| kind[name].as_u64().expect("a count");
    kinds
        .map(|kind| {
            let counts = (count(kind, "resealed"), count(kind, "already"), count(kind, "unreadable"));
            (kind["kind"].as_str().expect("a kind").to_owned(), counts)
        })
        .collect()
}

/// Of `docs/operating.md`, in order.
fn procedure() -> Vec<Vec<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operating.md");
    let page = fs::read_to_string(page).expect("a page");
    let (_, procedure) = page.split_once("### Retire a leaked encryption key\n").expect("the procedure");
    let procedure = procedure.split("\n## ").next().expect("a part");
    let block = Regex::new(r"(?s)```sh\n(.*?)```").expect("an expression");
    let blocks =
        block.captures_iter(procedure).map(|found| found[1].lines().map(|line| line.trim().to_owned()).collect());
    blocks.map(|lines: Vec<String>| lines.into_iter().filter(|line| !line.is_empty()).collect()).collect()
}

/// Contract: command-line 15, 16. The commands and environments are those of `docs/operating.md`.
#[tokio::test]
async fn documented_rotation_leaves_only_the_new_key_in_use() {
    let sink = Sink::start().await;
    let mut app = App::simulated().delivering_to(&sink).set("limits.recovery_codes", "2").in_processes().start().await;
    let mut environment = vec![variable("MFA_ENCRYPTION_KEY", OLD)];
    app.restart_with(&environment).await;
    let seeds = Seeds::plant(&app, &sink).await;
    let empty: Vec<_> = app.sealed_columns().await.into_iter().filter(|(_, rows)| rows.is_empty()).collect();
    assert!(empty.is_empty(), "columns without a sealed row: {empty:?}");
    let (by_old, all) = app.opened_with(SEALS).await;
    assert_eq!(by_old, all);

    let mut commands = Vec::new();
    for lines in procedure() {
        if lines[0].starts_with("NEW=") {
            continue;
        }
        if !lines[0].starts_with("kitfleet ") {
            let assigned = lines.iter().map(|line| line.split_once('=').expect("an assignment"));
            let value = |text: &str| text.replace("$OLD", OLD).replace("$NEW", &base64_of(NEW));
            environment = assigned.map(|(name, text)| (name.to_owned(), value(text))).collect();
            app.restart_with(&environment).await;
            seeds.assert_readable(&app, &sink).await;
            continue;
        }
        for line in lines {
            let args: Vec<_> = line.split(' ').skip(1).collect();
            let ran = app.run_with(&args, &environment).await;
            if args[0] == "doctor" {
                let checks = app.run_with(&["doctor", "--json"], &environment).await.json();
                for subject in ["encryption key", "sealed secrets"] {
                    let check = checks.as_array().expect("checks").iter().find(|check| check["subject"] == subject);
                    assert_eq!(check.expect("the check")["status"], "ok", "{checks}");
                }
            } else {
                let output = ran.code(0).stdout;
                assert!(output.contains("every secret is sealed with the current key"), "{output}");
                for kind in areas::sealed() {
                    assert!(output.contains(&format!("{}: ", kind.kind)), "no progress of {}: {output}", kind.kind);
                }
                assert_eq!(app.stranger().get("/readyz").await.expect(200).body["encryption_key"], "ok");
                let again = counts(&app.run_with(&["key", "rotate-sealing", "--json"], &environment).await.code(0));
                assert!(
                    again
                        .values()
                        .all(|(resealed, already, unreadable)| (*resealed, *unreadable) == (0, 0) && *already > 0)
                );
                assert_eq!(again.len(), areas::sealed().count());
            }
            commands.push(line);
        }
    }
    assert_eq!(commands, ["kitfleet key rotate-sealing", "kitfleet doctor"]);
    assert_eq!(environment[0], variable("MFA_ENCRYPTION_KEY", &base64_of(NEW)));
    let (by_new, all) = app.opened_with(NEW).await;
    assert_eq!(by_new, all);
    assert_eq!(app.opened_with(SEALS).await.0, 0);
    assert_eq!(app.stranger().get("/readyz").await.expect(200).body["encryption_key"], "ok");
    // The receipt's fingerprint cannot be compared after the rotation.
    let path = format!("/v1/agent-sessions/{}/message", seeds.agent);
    let again = seeds.client.request(Method::POST, &path).header("idempotency-key", "before");
    let again = seeds.client.send(again.json(&json!({"message": "take a screenshot"}))).await.problem(409, "conflict");
    assert_eq!(again.body["idempotency_status"], "mismatch");
    app.stop().await;
}

/// Contract: command-line 10. Each kind that `key rotate-sealing` reseals.
#[tokio::test]
async fn doctor_counts_unopenable_secrets_of_every_kind() {
    let sink = Sink::start().await;
    let builder =
        App::simulated().delivering_to(&sink).set("mfa.encryption_key", OLD).set("limits.recovery_codes", "2");
    let app = builder.start().await;
    Seeds::plant(&app, &sink).await;
    let check = async || {
        let checks = app.run(&["doctor", "--json"]).await.json();
        let mut checks = checks.as_array().expect("checks").iter();
        checks.find(|check| check["subject"] == "sealed secrets").expect("the check").clone()
    };
    assert_eq!(check().await["status"], "ok");
    for sealed in areas::sealed() {
        // With another key id, the secrets look as if another key had sealed them.
        let flipped = sealed
            .columns
            .iter()
            .map(|(column, _)| format!("{column} = set_byte({column}, 0, 255 - get_byte({column}, 0))"));
        let flip = format!("update {} set {}", sealed.table, flipped.collect::<Vec<_>>().join(", "));
        let rows = app.sealed_columns().await.into_iter();
        let of_kind = rows
            .filter(|(column, _)| sealed.columns.iter().any(|(name, _)| *column == format!("{}.{name}", sealed.table)));
        let count = of_kind.map(|(_, rows)| rows.len()).sum::<usize>();
        let update = async || {
            sqlx::query(AssertSqlSafe(flip.clone())).execute(&app.database.pool).await.expect("an update");
        };
        update().await;
        let found = check().await;
        assert_eq!(found["status"], "fail", "{}", sealed.kind);
        let kind = sealed.kind.replace('_', " ");
        let finding = format!("{count} cannot be opened with the configured keys: {kind} {count}");
        assert_eq!(found["finding"], finding);
        update().await;
    }
    assert_eq!(check().await["status"], "ok");
    app.stop().await;
}

/// Recipes sealed with the retired key. Returns their ids.
async fn with_recipes(many: usize) -> (App, Vec<Uuid>) {
    let builder = App::simulated().set("mfa.encryption_key", &base64_of(NEW));
    let app = builder.set("mfa.retired_encryption_keys", OLD).start().await;
    let (account, old) = (app.account(Tier::Enterprise).await, Vault::new(SEALS, &[]));
    let ids: Vec<Uuid> = (0..many).map(|_| Uuid::now_v7()).collect();
    let sealed: Vec<_> = ids.iter().map(|id| old.seal("recipes", &RecipeId::from(*id).to_string(), b"[]")).collect();
    sqlx::query(
        "insert into recipes (id, account_id, label, description, intent_count, sealed_steps)
         select id, $1, 'x', '', 0, sealed from unnest($2::uuid[], $3::bytea[]) as made (id, sealed)",
    )
    .bind(account.as_uuid())
    .bind(&ids)
    .bind(&sealed)
    .execute(&app.database.pool)
    .await
    .expect("recipes");
    (app, ids)
}

/// Contract: command-line 15. A batch is either whole or absent.
#[tokio::test]
async fn rotate_sealing_continues_after_a_kill() {
    let (app, ids) = with_recipes(1_200).await;
    // With 2 ms per row a batch takes more than a second.
    app.execute_all(
        "create function take_time() returns trigger language plpgsql as
             $$ begin perform pg_sleep(0.002); return new; end $$;
         create trigger slow before update on recipes for each row execute function take_time();",
    )
    .await;
    let mut child =
        app.command(&["key", "rotate-sealing"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a command");
    eventually(Duration::from_secs(30), "the first batch is resealed", async || {
        (app.opened_with(NEW).await.0 > 0).then_some(())
    })
    .await;
    child.kill().expect("the command runs");
    child.wait().expect("the command ends");
    app.execute_all("drop trigger slow on recipes").await;
    let done = app.opened_with(NEW).await.0;
    assert!(done < ids.len() && done % 500 == 0, "{done}");

    let rest = counts(&app.run(&["key", "rotate-sealing", "--json"]).await.code(0));
    let (done, all) = (u64::try_from(done).expect("few"), u64::try_from(ids.len()).expect("few"));
    assert_eq!(rest["recipes"], (all - done, done, 0));
    let again = counts(&app.run(&["key", "rotate-sealing", "--json"]).await.code(0));
    assert_eq!(again["recipes"], (0, all, 0));
    assert_eq!(app.opened_with(NEW).await, (ids.len(), ids.len()));
    app.stop().await;
}

/// Contract: command-line 15, 16.
#[tokio::test]
async fn rotate_sealing_keeps_changes_and_lists_unreadable_secrets() {
    let (app, ids) = with_recipes(3).await;
    let changed = RecipeId::from(ids[0]);
    let mut other = app.database.pool.begin().await.expect("a transaction");
    sqlx::query("select from recipes where id = $1 for update")
        .bind(ids[0])
        .execute(&mut *other)
        .await
        .expect("a lock");
    let command = app.command(&["key", "rotate-sealing", "--json"]);
    let running = tokio::spawn(async move { run(command, "").await });
    eventually(Duration::from_secs(30), "the others are resealed", async || {
        (app.opened_with(NEW).await.0 == 2).then_some(())
    })
    .await;
    let fresh = Vault::new(SEALS, &[]).seal("recipes", &changed.to_string(), b"changed");
    let change = sqlx::query("update recipes set sealed_steps = $2 where id = $1").bind(ids[0]).bind(fresh);
    change.execute(&mut *other).await.expect("a change");
    other.commit().await.expect("a commit");
    assert_eq!(counts(&running.await.expect("a task").code(0))["recipes"], (3, 0, 0));
    let stored: Vec<u8> = sqlx::query_scalar("select sealed_steps from recipes where id = $1")
        .bind(ids[0])
        .fetch_one(&app.database.pool)
        .await
        .expect("the recipe");
    let opened = Vault::new(NEW, &[]).open("recipes", &changed.to_string(), &stored);
    assert_eq!(opened.expect("the new key opens it"), b"changed");

    // One row sealed with another key, and one with the secret of another row.
    let foreign = Vault::new(OTHER, &[]).seal("recipes", &RecipeId::from(ids[1]).to_string(), b"[]");
    app.execute_sealed("update recipes set sealed_steps = $2 where id = $1", ids[1], &foreign).await;
    let moved = Vault::new(SEALS, &[]).seal("recipes", &changed.to_string(), b"[]");
    app.execute_sealed("update recipes set sealed_steps = $2 where id = $1", ids[2], &moved).await;
    let ran = app.run(&["key", "rotate-sealing"]).await.code(1);
    let named = [ids[1], ids[2]].map(|id| RecipeId::from(id).to_string());
    assert!(ran.error_text().contains("2 recipes") && named.iter().all(|id| ran.error_text().contains(id)), "{ran:?}");
    let ran = app.run(&["key", "rotate-sealing", "--json"]).await.code(1);
    assert_eq!(counts(&ran)["recipes"], (0, 1, 2));
    let kinds = ran.json();
    let recipes = kinds.as_array().expect("a list").iter().find(|kind| kind["kind"] == "recipes").expect("the kind");
    assert_eq!(recipes["unreadable_ids"], json!(named));
    let stored: Vec<Vec<u8>> = sqlx::query_scalar("select sealed_steps from recipes where id = any($1) order by id")
        .bind(vec![ids[1], ids[2]])
        .fetch_all(&app.database.pool)
        .await
        .expect("the recipes");
    assert_eq!(stored, [foreign, moved]);
    app.stop().await;
}

impl App {
    /// Returns its number and address.
    async fn another_api_with(&mut self, key: &str) -> (usize, String) {
        let address = format!("127.0.0.1:{}", free_port());
        let variables = [("KITFLEET_SERVER__LISTEN", address.as_str()), ("KITFLEET_MFA__ENCRYPTION_KEY", key)];
        let process = self.start_with(Role::Api, &variables);
        let base_url = format!("http://{address}");
        let client = Client::new(&base_url, None);
        eventually(Duration::from_secs(30), "the other API answers", async || {
            client.request(Method::GET, "/healthz").send().await.ok()
        })
        .await;
        (process, base_url)
    }

    async fn doctor_of(&self, key: &str) -> Value {
        let environment = vec![variable("KITFLEET_MFA__ENCRYPTION_KEY", key)];
        let checks = self.run_with(&["doctor", "--json"], &environment).await.json();
        let mut checks = checks.as_array().expect("checks").iter();
        checks.find(|check| check["subject"] == "encryption key").expect("the check")["status"].clone()
    }
}

async fn readiness(base_url: &str) -> (u16, Value) {
    let answer = Client::new(base_url, None).get("/readyz").await;
    (answer.status.as_u16(), answer.body["encryption_key"].clone())
}

async fn gauge(base_url: &str) -> String {
    let samples = samples(base_url).await;
    let sample = samples.iter().find_map(|sample| sample.strip_prefix("service_encryption_key_ok "));
    sample.expect("the gauge").to_owned()
}

/// Contract: operators 13. Nothing is sealed. It serves requests that need no key.
#[tokio::test]
async fn requests_that_need_the_key_are_503_without_the_deployments_key() {
    let sink = Sink::start().await;
    let builder =
        App::simulated().delivering_to(&sink).set("mfa.encryption_key", OLD).set("limits.recovery_codes", "2");
    let mut app = builder.in_processes().start().await;
    let seeds = Seeds::plant(&app, &sink).await;
    let bob = app.person(Tier::Free).await;
    let first_of = async |path: &str| {
        let list = seeds.client.get(path).await.expect(200).body;
        list["data"][0]["id"].as_str().expect("an id").to_owned()
    };
    let (profile, proxy) = (first_of("/v1/profiles").await, first_of("/v1/account/me/proxies").await);
    let socks5 = json!({"label": "Office", "scheme": "socks5", "host": "proxy.example.com", "port": 1080,
                        "username": "kit", "password": "sesame"});
    let Seeds { agent, recipe, endpoint, .. } = &seeds;
    let document = seeds.client.get(&format!("/v1/profiles/{profile}/export")).await.expect(200).body;
    let model_key = "/v1/account/me/byok-anthropic-key";
    let requests = [
        (Method::POST, "/v1/profiles".to_owned(), json!({"name": "Shop"})),
        (Method::POST, format!("/v1/profiles/{profile}/clone"), json!({})),
        (Method::GET, format!("/v1/profiles/{profile}/export"), json!({})),
        (Method::POST, "/v1/webhooks".to_owned(), json!({"url": sink.url("/ok"), "events": ["session.failed"]})),
        (Method::POST, format!("/v1/webhooks/{endpoint}/rotate-secret"), json!({})),
        (Method::POST, "/v1/account/me/proxies".to_owned(), socks5.clone()),
        (Method::PUT, format!("/v1/account/me/proxies/{proxy}"), socks5),
        (Method::POST, format!("/v1/account/me/proxies/{proxy}/check"), json!({})),
        (Method::POST, "/v1/agent-sessions".to_owned(), json!({"proxy_id": proxy})),
        (Method::PUT, model_key.to_owned(), json!({"key": "sk-ant-another-key-of-this-test"})),
        (Method::POST, format!("{model_key}/test"), json!({})),
        (Method::POST, format!("/v1/agent-sessions/{agent}/message"), json!({"message": "take a screenshot"})),
        (Method::GET, format!("/v1/agent-sessions/{agent}/transcript"), json!({})),
        (Method::GET, format!("/v1/agent-sessions/{agent}/recipe-suggestion"), json!({})),
        (Method::POST, "/v1/recipes".to_owned(), json!({"agent_session_id": agent, "label": "Sign in"})),
        (Method::GET, format!("/v1/recipes/{recipe}"), json!({})),
    ];
    let sealed = app.sealed_columns().await;
    for (key, status) in [(base64_of(OTHER), "wrong"), (String::new(), "missing")] {
        let (_, base_url) = app.another_api_with(&key).await;
        let at = |client: &Client| Client::new(&base_url, client.key.as_deref());
        let assert_503 = async |client: &Client, request: reqwest::RequestBuilder, what: &str| {
            let answer = client.send(request).await;
            assert_eq!(answer.status, 503, "{what}: {}", answer.body);
            let answer = answer.problem(503, "feature-unavailable");
            let members = (&answer.body["title"], &answer.body["encryption_key"]);
            assert_eq!(members, (&json!("FeatureUnavailable"), &json!(status)), "{what}");
            assert_eq!(answer.headers["retry-after"], "1", "{what}");
        };
        let client = at(&seeds.client);
        for (method, path, body) in &requests {
            let request = client.request(method.clone(), path);
            let request = if *method == Method::GET { request } else { request.json(body) };
            assert_503(&client, request, path).await;
        }
        let path = format!("/v1/agent-sessions/{agent}/message");
        let keyed = client.request(Method::POST, &path).header("idempotency-key", "before");
        assert_503(&client, keyed.json(&json!({"message": "take a screenshot"})), "a message with a key").await;
        let import = client.request(Method::POST, "/v1/profiles/import").json(&document);
        assert_503(&client, import, "an import").await;
        let person = at(&bob.client);
        assert_503(&person, person.request(Method::POST, "/v1/account/mfa/enroll").json(&json!({})), "enrolling").await;
        let person = at(&seeds.ada.client);
        let code = json!({"code": app.fresh_code(&seeds.ada, &seeds.authenticator).await});
        assert_503(&person, person.request(Method::POST, "/v1/auth/mfa/step-up").json(&code), "a code").await;

        client.get("/v1/account/me").await.expect(200);
        client.get(&format!("/v1/webhooks/{endpoint}")).await.expect(200);
        let session = client.session().await;
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    assert_eq!(app.sealed_columns().await, sealed, "a process without the key sealed something");
    app.stop().await;
}

/// Contract: operators 13. It refuses to seal; one with the new key seals.
#[tokio::test]
async fn running_process_detects_a_key_rotation() {
    let mut app = App::simulated().set("mfa.encryption_key", OLD).in_processes().start().await;
    let client = app.client().await;
    let (_, base_url) = app.another_api_with(&base64_of(OTHER)).await;
    let other = Client::new(&base_url, client.key.as_deref());
    client.profile().await;
    other.post("/v1/profiles", json!({"name": "Shop"})).await.problem(503, "feature-unavailable");
    let environment = vec![variable("KITFLEET_MFA__ENCRYPTION_KEY", &base64_of(OTHER))];
    app.run_with(&["key", "rotate-sealing", "--replace-probe"], &environment).await;
    eventually(Duration::from_mins(1), "the process without the new key refuses to seal", async || {
        let answer = client.post("/v1/profiles", json!({"name": "Shop"})).await;
        (answer.status == 503).then_some(())
    })
    .await;
    eventually(Duration::from_mins(1), "the process with the new key seals", async || {
        let answer = other.post("/v1/profiles", json!({"name": "Shop"})).await;
        (answer.status == 201).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: workers 17; operators 2.
#[tokio::test]
async fn worker_with_wrong_key_opens_no_sessions() {
    let builder = App::simulated().set("mfa.encryption_key", OLD).in_processes().roles(&[Role::Api]);
    let mut app = builder.start().await;
    let client = app.client().await;
    app.start_with(Role::Worker, &[("KITFLEET_MFA__ENCRYPTION_KEY", &base64_of(OTHER))]);
    eventually(Duration::from_secs(30), "the worker reports no room", async || {
        let answer = client.get("/readyz").await;
        (answer.status == 200 && answer.body["workers"] == "no_room").then_some(())
    })
    .await;
    client.post("/v1/sessions", json!({})).await.expect(503);
    app.start(Role::Worker);
    eventually(Duration::from_secs(30), "a worker with the key is ready", async || {
        (client.get("/readyz").await.body["workers"] == "ok").then_some(())
    })
    .await;
    client.session().await;
    app.stop().await;
}

/// Contract: operators 2, 7; command-line 10, 17. It never replaces the deployment's key on its own.
#[tokio::test]
async fn process_with_wrong_or_missing_key_reports_it() {
    let mut app = scraped(App::simulated().set("mfa.encryption_key", OLD)).in_processes().start().await;
    assert_eq!(readiness(&app.base_url).await, (200, json!("ok")));
    let (wrong, wrong_url) = app.another_api_with(&base64_of(OTHER)).await;
    let (missing, missing_url) = app.another_api_with("").await;
    for (process, base_url, key, status) in
        [(wrong, &wrong_url, base64_of(OTHER), "wrong"), (missing, &missing_url, String::new(), "missing")]
    {
        assert_eq!(readiness(base_url).await, (503, json!(status)));
        Client::new(base_url, None).get("/readyz").await.problem(503, "feature-unavailable");
        assert_eq!(gauge(base_url).await, "0");
        assert_eq!(app.doctor_of(&key).await, "fail");
        let log = app.log(process);
        let line = log.lines().find(|line| line.contains("ERROR") && line.contains("mfa.encryption_key"));
        assert!(line.is_some_and(|line| line.contains(status)), "{log}");
    }
    assert_eq!(gauge(&app.base_url).await, "1");
    assert_eq!(app.doctor_of(OLD).await, "ok");

    // Neither process has replaced the probe, and the command does so only with `--replace-probe`.
    let other = vec![variable("KITFLEET_MFA__ENCRYPTION_KEY", &base64_of(OTHER))];
    let refused = app.run_with(&["key", "rotate-sealing"], &other).await.code(1);
    assert!(refused.error_text().contains("--replace-probe"), "{refused:?}");
    let none = vec![variable("KITFLEET_MFA__ENCRYPTION_KEY", "")];
    assert!(app.run_with(&["key", "rotate-sealing"], &none).await.code(1).error_text().contains("is not set"));
    assert_eq!(readiness(&app.base_url).await, (200, json!("ok")));
    app.run_with(&["key", "rotate-sealing", "--replace-probe"], &other).await.code(0);
    assert_eq!(readiness(&app.base_url).await, (503, json!("wrong")));
    assert_eq!(readiness(&wrong_url).await, (200, json!("ok")));
    assert_eq!(gauge(&wrong_url).await, "1");
    app.stop().await;
}

/// Contract: operators 2. If only a retired key opens the probe, the status is `retired`. Without a key the process is ready
/// while no secret is sealed.
#[tokio::test]
async fn sealed_rows_decide_without_a_probe() {
    let mut app = App::simulated().in_processes().start().await;
    assert_eq!(readiness(&app.base_url).await, (200, json!("none")));
    assert!(app.register("mac-1", "secret-of-a-livekit-server", None, SEALS).await);
    assert_eq!(readiness(&app.base_url).await, (503, json!("missing")));
    let (_, wrong) = app.another_api_with(&base64_of(OTHER)).await;
    assert_eq!(readiness(&wrong).await, (503, json!("wrong")));
    assert_eq!(app.count("select count(*) from server_secrets where name = 'encryption_key_probe'").await, 0);
    let (_, right) = app.another_api_with(OLD).await;
    assert_eq!(readiness(&right).await, (200, json!("ok")));
    assert_eq!(app.count("select count(*) from server_secrets where name = 'encryption_key_probe'").await, 1);
    app.restart_retired().await;
    assert_eq!(readiness(&app.base_url).await, (200, json!("retired")));
    app.stop().await;
}

impl App {
    async fn restart_retired(&mut self) {
        self.signal(0, Signal::SIGTERM).await;
        let new = base64_of(NEW);
        self.start_with(Role::Up, &[("MFA_ENCRYPTION_KEY", &new), ("KITFLEET_MFA__RETIRED_ENCRYPTION_KEYS", OLD)]);
        self.ready().await;
    }
}
