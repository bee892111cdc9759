//! API keys over HTTP (contract: api-keys; authorization 1, 4, 6).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kitfleet_domain::api_keys::Scope;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, members, stable, unknown_id};

pub const KEYS: &str = "/v1/api-keys";

/// Creation and rotation alone return the key.
#[derive(Debug, Clone)]
pub struct Minted {
    pub id: String,
    pub key: String,
}

impl Minted {
    pub fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 201, "{}", answer.body);
        let text = |member: &str| answer.body[member].as_str().expect("a text").to_owned();
        Self { id: text("id"), key: text("key") }
    }

    pub fn path(&self) -> String {
        format!("{KEYS}/{}", self.id)
    }

    pub fn client(&self, base_url: &str) -> Client {
        Client::new(base_url, Some(&self.key))
    }

    async fn rotate(&self, by: &Client) -> Answer {
        by.post(&format!("{}/rotate", self.path()), json!({})).await
    }

    async fn revoke(&self, by: &Client) -> Answer {
        by.delete(&self.path()).await
    }
}

pub async fn mint(by: &Client, scopes: &[&str]) -> Minted {
    Minted::of(&by.post(KEYS, json!({"name": "CI", "scopes": scopes})).await)
}

/// Oldest first.
pub async fn revocations(app: &App, account: AccountId) -> Vec<Value> {
    sqlx::query_scalar("select data from events where account_id = $1 and type = 'api_key.revoked' order by id")
        .bind(account.as_uuid())
        .fetch_all(&app.database.pool)
        .await
        .expect("the events")
}

async fn holds(app: &App, condition: &'static str, key: &Minted) -> bool {
    let query = format!("select {condition} from api_keys where id = $1");
    let holds = sqlx::query_scalar(sqlx::AssertSqlSafe(query)).bind(uuid_of(&key.id));
    let holds: Option<bool> = holds.fetch_one(&app.database.pool).await.expect("the key's row");
    holds == Some(true)
}

/// CRC-32 (ISO 3309), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// Contract: api-keys 2. `svc_live_` or the like, 32 random bytes in hex, and a CRC-32.
#[track_caller]
pub fn assert_key(key: &str, prefix: &str) {
    let rest = key.strip_prefix(prefix).unwrap_or_else(|| panic!("{key} does not begin with {prefix}"));
    assert!(rest.len() == 72 && rest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{key}");
    let (random, checksum) = rest.split_at(64);
    assert_eq!(checksum, format!("{:08x}", crc32(random.as_bytes())));
}

/// Contract: api-keys 1 to 3; requests 1, 2; audit-log 14. The database stores only its SHA-256.
#[tokio::test]
async fn key_is_shown_once_and_has_a_checksum() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "the check value of CRC-32");
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;

    let made = ada.client.post(KEYS, json!({"name": " CI ", "scopes": ["read", "write:sessions"]})).await.expect(201);
    insta::assert_json_snapshot!("key", stable(&made.body), { ".key" => "[key]", ".key_prefix" => "[prefix]" });
    let minted = Minted::of(&made);
    assert_eq!(made.headers["location"], minted.path());
    assert_eq!(made.headers["cache-control"], "no-store");
    let account = ada.account.to_string();
    assert_eq!((&made.body["account_id"], &made.body["created_by_account_id"]), (&json!(account), &json!(account)));
    assert_key(&minted.key, "svc_live_");
    assert_eq!(made.body["key_prefix"], minted.key[..12]);

    let got = ada.client.get(&minted.path()).await.expect(200).body;
    let mut expected = made.body.clone();
    expected.as_object_mut().expect("an object").remove("key");
    assert_eq!(got, expected);
    let listed = ada.client.get(KEYS).await.expect(200).body;
    assert_eq!(listed["data"], json!([got]));
    for part in [minted.key.as_str(), &minted.key[9..73]] {
        assert_eq!(app.tables_with(part).await, <[String; 0]>::default());
        assert!(!app.log(0).contains(part), "a key is logged");
    }
    let hashed = sqlx::query_scalar("select key_hash = sha256(convert_to($2, 'UTF8')) from api_keys where id = $1");
    let hashed: sqlx::Result<bool> =
        hashed.bind(uuid_of(&minted.id)).bind(&minted.key).fetch_one(&app.database.pool).await;
    assert!(hashed.expect("the key's row"), "SHA-256 at rest");

    // The key works, and the audit log distinguishes a key created with a key from one created by the person.
    let program = minted.client(&app.base_url);
    assert_eq!(program.get("/v1/account/me").await.expect(200).body["id"], account);
    let owner = mint(&ada.client, &["account_owner"]).await;
    let second = mint(&owner.client(&app.base_url), &["read"]).await;
    assert!(second.key != owner.key && second.id > owner.id && owner.id > minted.id);
    let log = app.audit(ada.account).await;
    let [first, _, last] = &log[..] else { panic!("{log:?}") };
    for (row, key) in [(first, &minted), (last, &second)] {
        assert_eq!((row.action.as_str(), row.actor_type.as_str()), ("api_key.minted", "customer"));
        assert_eq!(row.actor_account_id, Some(ada.account.as_uuid()));
        assert_eq!(row.target_resource_id.as_deref(), Some(key.id.as_str()));
        assert_eq!(row.ip_address.as_deref(), Some("127.0.0.1"));
    }
    assert_eq!((first.actor_key_id, last.actor_key_id), (None, Some(uuid_of(&owner.id))));
    assert_eq!(first.payload, json!({"name": "CI", "scopes": ["read", "write:sessions"]}));
    app.stop().await;
}

/// Contract: api-keys 3, 4; authorization 6; requests 2.
#[tokio::test]
async fn create_with_invalid_body_creates_no_key() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let named = |name: Value| json!({"name": name, "scopes": ["read"]});
    let scoped = |scopes: Value| json!({"name": "CI", "scopes": scopes});
    let expiring = |at: Value| json!({"name": "CI", "scopes": ["read"], "expires_at": at});
    let refused = [
        (json!({}), "name"),
        (json!({"scopes": ["read"]}), "name"),
        (json!({"name": "CI"}), "scopes"),
        (named("".into()), "name"),
        (named(" \t ".into()), "name"),
        (named("x".repeat(121).into()), "name"),
        (named("ü".repeat(121).into()), "name"),
        (named("a\nb".into()), "name"),
        (named("a\u{7f}b".into()), "name"),
        (named("a\u{85}b".into()), "name"),
        (named("a\0b".into()), "name"),
        (named(5.into()), "name"),
        (named(Value::Null), "name"),
        (scoped(json!([])), "scopes"),
        (scoped(Value::Null), "scopes"),
        (scoped("read".into()), "scopes"),
        (scoped(json!(["read", "sing"])), "scopes.1"),
        (scoped(json!(vec!["read"; 10_000])), "scopes"),
        (scoped(json!(["READ"])), "scopes.0"),
        (scoped(json!([""])), "scopes.0"),
        (scoped(json!(["read "])), "scopes.0"),
        (scoped(json!(["read", "read\0"])), "scopes.1"),
        (scoped(json!([1])), "scopes.0"),
        (scoped(json!(["admin"])), "scopes.0"),
        (scoped(json!(["account_owner", "admin"])), "scopes.1"),
        (expiring("2020-01-01T00:00:00Z".into()), "expires_at"),
        (expiring("0001-01-01T00:00:00Z".into()), "expires_at"),
        (expiring("tomorrow".into()), "expires_at"),
        (expiring("".into()), "expires_at"),
        (expiring("2999-02-30T00:00:00Z".into()), "expires_at"),
        (expiring("2999-01-01".into()), "expires_at"),
        (expiring("2999-01-01T00:00:00".into()), "expires_at"),
        (expiring(32_472_144_000_i64.into()), "expires_at"),
    ];
    for (body, field) in refused {
        ada.client.post(KEYS, body).await.invalid(field);
    }
    // A key with `account_owner` cannot create an `admin` key, and a key without a minting scope cannot create any.
    let owner = app.client_of(ada.account, &["account_owner"]).await;
    owner.post(KEYS, scoped(json!(["admin"]))).await.invalid("scopes.0");
    let reader = app.client_of(ada.account, &["read", "write"]).await;
    reader.post(KEYS, named("CI".into())).await.problem(403, "forbidden");
    let made = ada.client.get(KEYS).await.expect(200).body;
    assert_eq!(made["data"].as_array().expect("a list").len(), 2, "only the keys that the test created");
    assert_eq!(app.audit(ada.account).await.len(), 2);

    for name in ["x".to_owned(), "ü".repeat(120), "a\u{301} - \u{1f511}".to_owned()] {
        let made = ada.client.post(KEYS, named(name.as_str().into())).await.expect(201);
        assert_eq!(made.body["name"], name);
    }
    for &scope in Scope::NAMES.iter().filter(|scope| **scope != "admin") {
        let made = ada.client.post(KEYS, scoped(json!([scope]))).await.expect(201);
        assert_eq!(made.body["scopes"], json!([scope]));
    }
    let made = ada.client.post(KEYS, scoped(json!(["read", "write", "read"]))).await.expect(201);
    assert_eq!(made.body["scopes"], json!(["read", "write"]), "duplicate scopes are merged");
    let soon = [
        (json!("2999-01-01T00:00:00Z"), json!("2999-01-01T00:00:00.000Z")),
        (json!("2999-01-01T02:00:00.1234+02:00"), json!("2999-01-01T00:00:00.123Z")),
        (Value::Null, Value::Null),
    ];
    for (asked, answered) in soon {
        let made = ada.client.post(KEYS, expiring(asked)).await.expect(201);
        assert_eq!(made.body["expires_at"], answered);
        Minted::of(&made).client(&app.base_url).get("/v1/sessions").await.expect(200);
    }
    app.stop().await;
}

/// Contract: requests 2. Outside the range of the database.
#[tokio::test]
async fn create_with_out_of_range_expiry_is_400() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    for moment in
        ["-5000-01-01T00:00:00Z", "-262143-01-01T00:00:00Z", "+10000-01-01T00:00:00Z", "+262142-12-31T23:59:59Z"]
    {
        let body = json!({"name": "CI", "scopes": ["read"], "expires_at": moment});
        ada.client.post(KEYS, body).await.invalid("expires_at");
    }
    assert_eq!(ids(&ada.client.get(KEYS).await.expect(200).body), <[String; 0]>::default());
    app.stop().await;
}

fn ids(list: &Value) -> Vec<String> {
    let data = list["data"].as_array().expect("a list");
    data.iter().map(|key| key["id"].as_str().expect("an id").to_owned()).collect()
}

/// Contract: api-keys 5; lists 1 to 3. Including revoked and expired keys.
#[tokio::test]
async fn keys_are_listed_newest_first_in_pages() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Enterprise).await;
    mint(&bob.client, &["read"]).await;
    let mut keys = Vec::new();
    for _ in 0..5 {
        keys.insert(0, mint(&ada.client, &["read"]).await);
    }
    keys[1].revoke(&ada.client).await.expect(204);
    app.execute("update api_keys set expires_at = now() where id = $1", uuid_of(&keys[2].id)).await;
    let expected: Vec<_> = keys.iter().map(|key| key.id.clone()).collect();

    let whole = ada.client.get(KEYS).await.expect(200).body;
    assert_eq!(members(&whole), BTreeSet::from(["data", "has_more", "next_cursor"]));
    assert_eq!(ids(&whole), expected);
    assert_eq!((&whole["has_more"], &whole["next_cursor"]), (&json!(false), &Value::Null));
    assert_timestamp(&whole["data"][1]["revoked_at"]);
    assert_timestamp(&whole["data"][2]["expires_at"]);
    for (entry, key) in whole["data"].as_array().expect("a list").iter().zip(&keys) {
        assert_eq!(ada.client.get(&key.path()).await.expect(200).body, *entry);
    }
    for limit in [1, 2, 4, 5, 100] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = ada.client.get(&format!("{KEYS}?limit={limit}{cursor}")).await.expect(200).body;
            assert!(ids(&page).len() <= limit);
            found.extend(ids(&page));
            assert_eq!(page["has_more"], page["next_cursor"].is_string());
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, expected, "by {limit}");
    }
    for limit in ["0", "101", "-1", "x", "%00"] {
        ada.client.get(&format!("{KEYS}?limit={limit}")).await.invalid("limit");
    }

    let page = ada.client.get(&format!("{KEYS}?limit=2")).await.expect(200).body;
    let cursor = page["next_cursor"].as_str().expect("a cursor").to_owned();
    bob.client.get(&format!("{KEYS}?cursor={cursor}")).await.invalid("cursor");
    ada.client.get(&format!("/v1/sessions?cursor={cursor}")).await.invalid("cursor");
    for place in [0, cursor.len() / 3, cursor.len() - 2] {
        let other = if cursor.as_bytes()[place] == b'A' { "B" } else { "A" };
        let mut tampered = cursor.clone();
        tampered.replace_range(place..=place, other);
        ada.client.get(&format!("{KEYS}?cursor={tampered}")).await.invalid("cursor");
    }
    for garbage in ["", "x", "%00", &keys[1].id, &cursor[1..]] {
        ada.client.get(&format!("{KEYS}?cursor={garbage}")).await.invalid("cursor");
    }
    for _ in 0..2 {
        ada.client.session().await;
    }
    let sessions = ada.client.get("/v1/sessions?limit=1").await.expect(200).body;
    let foreign = sessions["next_cursor"].as_str().expect("a cursor");
    ada.client.get(&format!("{KEYS}?cursor={foreign}")).await.invalid("cursor");
    // A cursor keeps its position when newer keys are created.
    mint(&ada.client, &["read"]).await;
    let next = ada.client.get(&format!("{KEYS}?limit=2&cursor={cursor}")).await.expect(200).body;
    assert_eq!(ids(&next), expected[2..4]);
    app.stop().await;
}

/// Contract: api-keys 12; errors 5. It is answered exactly as an unknown id.
#[tokio::test]
async fn key_of_another_account_is_404() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Enterprise).await;
    let his = mint(&bob.client, &["read"]).await;
    let uuid = Uuid::now_v7();
    let ids = [
        unknown_id("key"),
        his.id.clone(),
        his.id.to_uppercase(),
        uuid_of(&his.id).to_string(),
        format!("ses_{uuid}"),
        format!("key_{}", uuid.simple()),
        format!("{}x", his.id),
        his.key[..12].to_owned(),
        "key_".to_owned(),
        "x".to_owned(),
        "%00".to_owned(),
        "'%20or%201=1".to_owned(),
    ];
    let owner = app.client_of(ada.account, &["account_owner"]).await;
    for client in [&ada.client, &owner] {
        for (method, suffix) in [(Method::GET, ""), (Method::DELETE, ""), (Method::POST, "/rotate")] {
            let mut answers = BTreeSet::new();
            for id in &ids {
                let request = client.request(method.clone(), &format!("{KEYS}/{id}{suffix}"));
                let answer = client.send(request).await.problem(404, "not-found");
                answers.insert((answer.body["title"].to_string(), answer.body["detail"].to_string()));
            }
            assert_eq!(answers.len(), 1, "{method}: {answers:?}");
        }
    }
    his.client(&app.base_url).get("/v1/sessions").await.expect(200);
    assert_eq!(app.audit(bob.account).await.len(), 1);
    assert_eq!(revocations(&app, bob.account).await, <[Value; 0]>::default());
    app.stop().await;
}

/// Contract: api-keys 6; authorization 2; events 4; audit-log 14.
#[tokio::test]
async fn revoked_key_fails_on_every_replica() {
    let mut app = App::simulated().start().await;
    let (_, elsewhere) = app.start_another_api().await;
    let ada = app.person(Tier::Enterprise).await;
    let key = mint(&ada.client, &["read"]).await;
    let (here, there) = (key.client(&app.base_url), key.client(&elsewhere));
    for _ in 0..3 {
        here.get("/v1/sessions").await.expect(200);
        there.get("/v1/sessions").await.expect(200);
    }
    key.revoke(&ada.client).await.expect(204);
    let refused = there.get("/v1/sessions").await.problem(401, "unauthorized");
    assert!(!refused.body.to_string().contains(&key.key));
    here.get("/v1/sessions").await.problem(401, "unauthorized");

    let revoked_at = ada.client.get(&key.path()).await.expect(200).body["revoked_at"].clone();
    assert_timestamp(&revoked_at);
    for _ in 0..2 {
        key.revoke(&ada.client).await.expect(204);
    }
    assert_eq!(ada.client.get(&key.path()).await.expect(200).body["revoked_at"], revoked_at);
    let expected_event = json!({"api_key_id": key.id, "name": "CI", "revoked_at": revoked_at});
    assert_eq!(revocations(&app, ada.account).await, [expected_event]);
    let log = app.audit(ada.account).await;
    let rows: Vec<_> = log.iter().filter(|row| row.action == "api_key.revoked").collect();
    let [row] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.actor_type.as_str(), row.actor_account_id), ("customer", Some(ada.account.as_uuid())));
    assert_eq!((row.actor_key_id, row.target_resource_id.as_deref()), (None, Some(key.id.as_str())));

    let own = mint(&ada.client, &["account_owner"]).await;
    own.revoke(&own.client(&elsewhere)).await.expect(204);
    own.client(&app.base_url).get("/v1/sessions").await.problem(401, "unauthorized");
    let late = mint(&ada.client, &["read"]).await;
    app.execute("update api_keys set expires_at = now() where id = $1", uuid_of(&late.id)).await;
    late.client(&elsewhere).get("/v1/sessions").await.problem(401, "unauthorized");
    late.revoke(&ada.client).await.expect(204);
    assert_eq!(revocations(&app, ada.account).await.len(), 3);

    let raced = mint(&ada.client, &["read"]).await;
    let (clients, path) = ([ada.client.clone(), Client::new(&elsewhere, Some(ada.token()))], raced.path());
    let answers = at_once((0..16).map(|i| {
        let (client, path) = (clients[i % 2].clone(), path.clone());
        async move { client.delete(&path).await.status.as_u16() }
    }));
    assert_eq!(answers.await, [204; 16]);
    assert_eq!(revocations(&app, ada.account).await.len(), 4);
    app.stop().await;
}

/// Contract: api-keys 8. After the revocation has answered, each use on each replica is 401.
#[tokio::test]
async fn revoked_key_fails_under_concurrent_use() {
    let mut app = App::simulated().start().await;
    let (_, elsewhere) = app.start_another_api().await;
    let ada = app.person(Tier::Enterprise).await;
    let key = mint(&ada.client, &["read"]).await;
    let (revoking, revoked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let count = Arc::new(AtomicUsize::new(0));
    let customers = (0..16).map(|i| {
        let client = key.client(if i % 2 == 0 { &app.base_url } else { &elsewhere });
        let (revoking, revoked, count) = (Arc::clone(&revoking), Arc::clone(&revoked), Arc::clone(&count));
        async move {
            let mut refused = false;
            loop {
                let was_revoked = revoked.load(Ordering::SeqCst);
                let status = client.get("/v1/sessions").await.status.as_u16();
                match status {
                    200 => assert!(!was_revoked && !refused, "the key worked after its revocation"),
                    401 => assert!(revoking.load(Ordering::SeqCst), "the key failed before its revocation"),
                    other => panic!("{other}"),
                }
                refused |= status == 401;
                count.fetch_add(1, Ordering::SeqCst);
                if was_revoked {
                    return;
                }
            }
        }
    });
    let customers = tokio::spawn(at_once(customers.collect::<Vec<_>>()));
    let wait_for = async |more: usize| {
        let goal = count.load(Ordering::SeqCst) + more;
        let enough = async || (count.load(Ordering::SeqCst) >= goal || customers.is_finished()).then_some(());
        eventually(Duration::from_secs(20), "the key is in use", enough).await;
    };
    wait_for(32).await;
    let successor = Minted::of(&key.rotate(&ada.client).await);
    wait_for(32).await;
    revoking.store(true, Ordering::SeqCst);
    key.revoke(&ada.client).await.expect(204);
    revoked.store(true, Ordering::SeqCst);
    customers.await.expect("every user of the key saw valid answers");
    successor.client(&elsewhere).get("/v1/sessions").await.expect(200);
    app.stop().await;
}

/// Contract: api-keys 7. The rotation writes `api_key.rotated` (contract: audit-log 14).
#[tokio::test]
async fn rotated_key_works_during_its_grace_period() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let old = mint(&ada.client, &["read", "write:sessions"]).await;
    let answer = old.rotate(&ada.client).await.expect(201);
    let new = Minted::of(&answer);
    insta::assert_json_snapshot!("rotated_key", stable(&answer.body), { ".key" => "[key]", ".key_prefix" => "[prefix]" });
    assert_eq!(answer.headers["location"], new.path());
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.body["rotated_from"], old.id);
    assert_key(&new.key, "svc_live_");
    assert!(new.key != old.key && new.id > old.id);
    assert_eq!(answer.body["key_prefix"], new.key[..12]);
    assert_eq!(app.tables_with(&new.key).await, <[String; 0]>::default());

    let clients = [old.client(&app.base_url), new.client(&app.base_url)];
    for client in &clients {
        client.get("/v1/sessions").await.expect(200);
    }
    let grace = "expires_at - now() between interval '23:59' and interval '24:00'";
    assert!(holds(&app, grace, &old).await);
    let shown = ada.client.get(&old.path()).await.expect(200).body;
    assert_timestamp(&shown["expires_at"]);
    assert_eq!(shown["revoked_at"], Value::Null);
    let log = app.audit(ada.account).await;
    let rows: Vec<_> = log.iter().filter(|row| row.action == "api_key.rotated").collect();
    let [row] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((row.actor_type.as_str(), row.target_resource_id.as_deref()), ("customer", Some(old.id.as_str())));
    assert_eq!(row.payload["new_api_key_id"], new.id);
    assert_eq!(row.payload["grace_expires_at"], shown["expires_at"]);
    assert!(!row.payload.to_string().contains(&new.key[9..]), "{}", row.payload);

    app.execute("update api_keys set expires_at = now() - interval '1 second' where id = $1", uuid_of(&old.id)).await;
    clients[0].get("/v1/sessions").await.problem(401, "unauthorized");
    clients[1].get("/v1/sessions").await.expect(200);
    assert_eq!(revocations(&app, ada.account).await, <[Value; 0]>::default(), "an expiry is not a revocation");

    // A rotation never extends a key that expires sooner, and the new key expires at the same time.
    let body = json!({"name": "short", "scopes": ["read"], "expires_at": "2999-01-01T00:00:00Z"});
    let short = Minted::of(&ada.client.post(KEYS, body).await);
    app.execute("update api_keys set expires_at = now() + interval '1 hour' where id = $1", uuid_of(&short.id)).await;
    let ends = ada.client.get(&short.path()).await.expect(200).body["expires_at"].clone();
    assert_eq!(short.rotate(&ada.client).await.expect(201).body["expires_at"], ends);
    assert_eq!(ada.client.get(&short.path()).await.expect(200).body["expires_at"], ends);
    app.stop().await;
}

/// Contract: api-keys 7 to 9.
#[tokio::test]
async fn second_rotation_of_key_is_409() {
    let app = App::simulated().set("api_keys.rotation_grace", "3h").start().await;
    let ada = app.person(Tier::Enterprise).await;
    let raced = mint(&ada.client, &["account_owner"]).await;
    let itself = raced.client(&app.base_url);
    let answers = at_once((0..16).map(|i| {
        let (raced, client) = (raced.clone(), if i % 2 == 0 { ada.client.clone() } else { itself.clone() });
        async move { raced.rotate(&client).await }
    }));
    let (won, lost): (Vec<_>, Vec<_>) = answers.await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((won.len(), lost.len()), (1, 15));
    for answer in lost {
        answer.problem(409, "conflict");
    }
    let successor = Minted::of(&won[0]);
    assert!(holds(&app, "expires_at - now() between interval '2:59' and interval '3:00'", &raced).await);
    assert_eq!(app.count("select count(*) from api_keys where rotated_from is not null").await, 1);
    assert_eq!(app.count("select count(*) from audit_log where action = 'api_key.rotated'").await, 1);

    raced.rotate(&ada.client).await.problem(409, "conflict");
    raced.revoke(&ada.client).await.expect(204);
    let third = Minted::of(&successor.rotate(&ada.client).await);
    third.client(&app.base_url).get("/v1/sessions").await.expect(200);

    let revoked = mint(&ada.client, &["read"]).await;
    revoked.revoke(&ada.client).await.expect(204);
    revoked.rotate(&ada.client).await.problem(409, "conflict");
    let expired = mint(&ada.client, &["read"]).await;
    app.execute("update api_keys set expires_at = now() where id = $1", uuid_of(&expired.id)).await;
    expired.rotate(&ada.client).await.problem(409, "conflict");
    assert_eq!(app.count("select count(*) from api_keys where rotated_from is not null").await, 2);
    app.stop().await;
}

/// Contract: api-keys 10; web-sessions 8. The record has a delay. Unused credentials stay unchanged.
#[tokio::test]
async fn last_use_of_credential_is_recorded() {
    let mut app = App::simulated().in_processes().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let (device, _idle) = (app.device_of(ada.account).await, app.device_of(ada.account).await);
    let long_ago = "update web_sessions set last_used_at = now() - interval '1 hour' where account_id = $1";
    app.execute(long_ago, ada.account.as_uuid()).await;
    let mut keys = Vec::new();
    for _ in 0..4 {
        keys.push(mint(&ada.client, &["read"]).await);
    }
    let [used, refused, late, unused] = &keys[..] else { panic!("{keys:?}") };
    used.client(&app.base_url).get("/v1/sessions").await.expect(200);
    refused.client(&app.base_url).get("/v1/sessions?limit=0").await.invalid("limit");
    device.get("/v1/account/mfa").await.expect(200);
    for key in [used, refused] {
        let noted = async || holds(&app, "last_used_at >= created_at", key).await.then_some(());
        eventually(Duration::from_secs(20), "the key's use is recorded", noted).await;
        assert_timestamp(&ada.client.get(&key.path()).await.expect(200).body["last_used_at"]);
    }
    let devices = "select count(*) from web_sessions where last_used_at > now() - interval '30 minutes'";
    let noted = async || (app.count(devices).await == 2).then_some(());
    eventually(Duration::from_secs(20), "the use of the web sessions is recorded", noted).await;
    assert_eq!(ada.client.get(&unused.path()).await.expect(200).body["last_used_at"], Value::Null);
    late.client(&app.base_url).get("/v1/sessions").await.expect(200);
    app.signal(0, Signal::SIGTERM).await;
    assert!(holds(&app, "last_used_at is not null", late).await);
    assert!(holds(&app, "last_used_at is null", unused).await);
    app.stop().await;
}

#[tokio::test]
async fn create_beyond_the_key_limit_is_409() {
    let app = App::simulated().set("limits.api_keys", "3").start().await;
    let ada = app.person(Tier::Enterprise).await;
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(mint(&ada.client, &["read"]).await);
    }
    let another = json!({"name": "CI", "scopes": ["read"]});
    let full = ada.client.post(KEYS, another.clone()).await.problem(409, "conflict");
    assert_eq!(full.body["limit"], 3);
    for key in &keys {
        Minted::of(&key.rotate(&ada.client).await);
    }
    let expire = "update api_keys set expires_at = now() where account_id = $1 and expires_at is not null";
    app.execute(expire, ada.account.as_uuid()).await;
    ada.client.post(KEYS, another).await.problem(409, "conflict");
    let list = ada.client.get(KEYS).await.expect(200).body;
    let newest = list["data"][0]["id"].as_str().expect("an id").to_owned();
    ada.client.delete(&format!("{KEYS}/{newest}")).await.expect(204);
    mint(&ada.client, &["read"]).await;
    app.stop().await;
}

/// Contract: api-keys 14.
#[tokio::test]
async fn key_can_be_renamed() {
    let app = App::simulated().start().await;
    let (account, owner) = app.customer(Tier::Enterprise).await;
    let minted = Minted::of(&owner.post(KEYS, json!({"name": "CI", "scopes": ["read"]})).await);
    let renamed = owner.patch(&minted.path(), json!({"name": " CI on main "})).await.expect(200);
    assert_eq!((&renamed.body["id"], &renamed.body["name"]), (&json!(minted.id), &json!("CI on main")));
    let rows = app.audited(account, "api_key.updated").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].payload, json!({"previous_name": "CI", "name": "CI on main"}));
    owner.patch(&minted.path(), json!({"name": " "})).await.invalid("name");
    let other = app.client().await;
    other.patch(&minted.path(), json!({"name": "x"})).await.problem(404, "not-found");
    app.stop().await;
}
