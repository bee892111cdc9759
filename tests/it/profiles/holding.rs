//! Contents of profiles in clones, snapshots, exports and imports (contract: profiles). The tests write the contents as the end
//! of a session would.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use kitfleet_profiles::{Cookie, Dump, PlaceConfig, Stores, StoresConfig};
use kitfleet_types::ids::ProfileId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{LAUNCH, PROFILES, at, id};
use crate::support::records::uuid_of;
use crate::support::{App, Client, Role, at_once, eventually, members, raw, stable, storage, unknown_id};

const MEDIA_TYPE: &str = "application/vnd.kitfleet.profile+json";
const IMPORT: &str = "/v1/profiles/import";
/// In a browser's folder.
const FILE: &str = "localstorage/https_shop.example_0.localstorage";

impl App {
    async fn stores(&self) -> Stores {
        let config = StoresConfig {
            vault: None,
            place: PlaceConfig::Database,
            scratch: self.data_dir.path().join("scratch"),
            store_bytes: 256 * 1024 * 1024,
            document_bytes: 300 * 1024 * 1024,
        };
        Stores::new(self.database.pool.clone(), config).await.expect("the stores")
    }

    async fn key_and_store(&self, profile: &str) -> (Vec<u8>, Option<Uuid>) {
        sqlx::query_as("select sealed_key, store_id from profiles where id = $1")
            .bind(uuid_of(profile))
            .fetch_one(&self.database.pool)
            .await
            .expect("the profile")
    }

    /// Writes a cookie and a file to a profile, as the end of a session does.
    async fn save_contents(&self, profile: &str, text: &str) {
        let folder = self.data_dir.path().join(Uuid::now_v7().to_string());
        storage::write(&folder.join(FILE), [("login".to_owned(), text.to_owned())]);
        let cookie = Cookie {
            name: "session".to_owned(),
            value: text.to_owned(),
            domain: "shop.example".to_owned(),
            path: "/".to_owned(),
            expires: None,
            secure: true,
            http_only: true,
            same_site: "Lax".to_owned(),
        };
        let (key, _) = self.key_and_store(profile).await;
        let dump = Dump { cookies: vec![cookie], files: PathBuf::from(&folder).into() };
        let saved = self.stores().await.save(profile_id(profile), &key, dump).await.expect("a store");
        sqlx::query(
            "with kept as (update profile_stores set removable_at = null where id = $2)
             update profiles set store_id = $2, size_bytes = $3 where id = $1",
        )
        .bind(uuid_of(profile))
        .bind(saved.id.as_uuid())
        .bind(saved.size_bytes)
        .execute(&self.database.pool)
        .await
        .expect("a statement");
    }

    /// The text that [`App::save_contents`] wrote to the profile, read as a session would.
    async fn read_contents(&self, profile: &str) -> Option<String> {
        let (key, store) = self.key_and_store(profile).await;
        let folder = self.data_dir.path().join(Uuid::now_v7().to_string());
        fs::create_dir_all(&folder).expect("a folder");
        let restored = self.stores().await.restore(profile_id(profile), &key, store?.into(), &folder).await;
        let cookies = restored.expect("a store");
        let items = storage::read(&folder.join(FILE));
        let [(_, text)] = &items[..] else { unreachable!("{items:?}") };
        assert_eq!((cookies.len(), &cookies[0].value, cookies[0].http_only), (1, text, true));
        Some(text.clone())
    }

    async fn removable(&self) -> i64 {
        self.count("select count(*) from profile_stores where removable_at <= now()").await
    }
}

fn profile_id(profile: &str) -> ProfileId {
    profile.parse().expect("a profile's id")
}

impl Client {
    async fn document_of(&self, profile: &str) -> (HeaderMap, String) {
        let response = self.request(Method::GET, &at(profile, "/export")).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let headers = response.headers().clone();
        (headers, response.text().await.expect("a document"))
    }

    async fn import(&self, document: impl Into<reqwest::Body>) -> crate::support::Answer {
        self.send(self.request(Method::POST, IMPORT).header("content-type", MEDIA_TYPE).body(document)).await
    }
}

/// Contract: profiles 15, 17, 18. The stores of purged profiles become removable.
#[tokio::test]
async fn clones_and_snapshots_keep_their_own_contents() {
    // The test runs without a worker, so that only commands remove stores.
    let app = App::simulated().roles(&[Role::Api]).start().await;
    let client = app.client().await;
    let profile = client.profile().await;
    app.save_contents(&profile, "one").await;
    let kept = client.get(&at(&profile, "")).await.expect(200).body;
    assert!(kept["size_bytes"].as_i64().is_some_and(|size| size > 0), "{kept}");
    let snapshot = client.post(&at(&profile, "/snapshots"), json!({})).await.expect(201);
    assert_eq!(snapshot.body["size_bytes"], kept["size_bytes"]);
    app.save_contents(&profile, "two, and then some").await;

    let clone = client.post(&at(&profile, "/clone"), json!({})).await.expect(201);
    let restore = format!("/v1/profile-snapshots/{}/restore", id(&snapshot));
    let restored = client.post(&restore, json!({})).await.expect(201);
    assert!(restored.body["size_bytes"].as_i64().is_some_and(|size| size > 0), "{}", restored.body);
    let (clone, restored) = (id(&clone), id(&restored));
    app.save_contents(&profile, "three").await;
    assert_eq!(app.read_contents(&profile).await.as_deref(), Some("three"));
    assert_eq!(app.read_contents(&clone).await.as_deref(), Some("two, and then some"));
    assert_eq!(app.read_contents(&restored).await.as_deref(), Some("one"));

    let elsewhere = client.post(&at(&clone, "/clone"), json!({})).await.expect(201);
    assert_eq!(app.read_contents(&id(&elsewhere)).await.as_deref(), Some("two, and then some"));

    // Deleting a snapshot does not remove a store that its profile still uses.
    let shared = client.post(&at(&profile, "/snapshots"), json!({})).await.expect(201);
    client.delete(&format!("/v1/profile-snapshots/{}", id(&shared))).await.expect(204);
    assert_eq!(app.removable().await, 0);
    client.delete(&format!("/v1/profile-snapshots/{}", id(&snapshot))).await.expect(204);
    assert_eq!(app.removable().await, 1);
    client.delete(&at(&clone, "")).await.expect(204);
    assert_eq!(app.removable().await, 1, "a store that a restore would need became removable");
    client.delete(&at(&clone, "/purge")).await.expect(204);
    assert_eq!(app.removable().await, 2);
    let stores = app.count("select count(*) from profile_stores").await;
    app.run(&["sweep", "retention"]).await.code(0);
    assert_eq!(app.removable().await, 0);
    assert_eq!(app.count("select count(*) from profile_stores").await, stores - 2);
    assert_eq!(app.read_contents(&profile).await.as_deref(), Some("three"));
    assert_eq!(app.read_contents(&id(&elsewhere)).await.as_deref(), Some("two, and then some"));
    app.stop().await;
}

/// Contract: profiles 6, 20. The audit rows of the export and of the import contain the source's ids.
#[tokio::test]
async fn exported_document_recreates_the_profile() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let params = json!({"name": "Zürich \"quoted\"", "archetype": "iphone-16-pro-ios-18"});
    let profile = id(&client.post(PROFILES, params).await.expect(201));
    app.save_contents(&profile, "a login").await;

    let (headers, document) = client.document_of(&profile).await;
    assert_eq!(headers["content-type"], MEDIA_TYPE);
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["content-disposition"], format!("attachment; filename=kitfleet-{profile}.json"));
    let parsed: Value = serde_json::from_str(&document).expect("JSON");
    insta::assert_json_snapshot!("exported_profile", stable(&parsed));
    let source = json!({"source_profile_id": profile, "source_account_id": account.to_string()});
    assert_eq!(app.last_audited(account, "profile.exported", &profile).await, source);
    let head = client.request(Method::HEAD, &at(&profile, "/export")).send().await.expect("an answer");
    assert_eq!((head.status().as_u16(), &head.headers()["content-type"]), (200, &headers["content-type"]));
    assert_eq!(app.audited(account, "profile.exported").await.len(), 1);

    let (elsewhere, other) = app.customer(Tier::Enterprise).await;
    let imported = other.import(document.clone()).await.expect(201);
    assert_eq!(imported.headers["location"], at(&id(&imported), ""));
    assert_eq!((&imported.body["name"], &imported.body["archetype"]), (&parsed["name"], &parsed["archetype"]));
    assert_eq!(imported.body["account_id"], elsewhere.to_string());
    assert!(imported.body["size_bytes"].as_i64().is_some_and(|size| size > 0), "{}", imported.body);
    assert_eq!(app.read_contents(&id(&imported)).await.as_deref(), Some("a login"));
    assert_eq!(app.last_audited(elsewhere, "profile.imported", &id(&imported)).await, source);
    assert!(app.audited(elsewhere, "profile.created").await.is_empty());
    let more = document.replacen('{', r#"{"surprise": {"deep": [1]}, "#, 1);
    let again = other.post_raw(IMPORT, more).await.expect(201);
    assert_eq!(again.headers["x-service-unknown-fields"], "surprise");
    assert_eq!(app.read_contents(&id(&again)).await.as_deref(), Some("a login"));

    let empty = client.profile().await;
    let imported = other.import(client.document_of(&empty).await.1).await.expect(201).body;
    assert_eq!((&imported["size_bytes"], &imported["archetype"]), (&json!(0), &json!(LAUNCH)));
    app.stop().await;
}

/// Contract: profiles 20, 21.
#[tokio::test]
async fn invalid_document_creates_nothing() {
    let app = App::simulated()
        .set("limits.profile_document_bytes", "100000")
        .set("limits.profile_store_bytes", "20000")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let good = json!({
        "format": "kitfleet.profile", "version": 2, "name": "Shop", "archetype": LAUNCH, "cookies": [],
        "origins": [{"origin": "https://shop.example", "local_storage": [["login", "a login"]], "databases": [{
            "name": "cart", "version": 1, "stores": [{"name": "items", "key_path": null}],
            "records": [{"store": "items", "key": 1, "value": {"object": [["id", 1]]}}],
        }]}],
    });
    let value_at = "/origins/0/databases/0/records/0/value";
    let with = |pointer: &str, value: Value| {
        let mut document = good.clone();
        *document.pointer_mut(pointer).expect("a member") = value;
        document.to_string()
    };
    for (pointer, value, field) in [
        ("/archetype", json!("nokia-3310"), "archetype"),
        ("/archetype", json!(16), "archetype"),
        ("/name", json!(" "), "name"),
        ("/name", json!("x".repeat(121)), "name"),
        ("/name", json!("a\nb"), "name"),
        ("/format", json!("another"), "format"),
        ("/version", json!(1), "version"),
        ("/version", json!(3), "version"),
        ("/cookies", json!([{"name": "a"}]), "cookies.0.value"),
        ("/origins/0/origin", json!("../up"), "origins.0.origin"),
        ("/origins/0/origin", json!("file:///etc/passwd"), "origins.0.origin"),
        ("/origins/0/origin", json!("https://shop.example/../.."), "origins.0.origin"),
        ("/origins/0/databases/0/version", json!(0), "origins.0.databases.0.version"),
        ("/origins/0/databases/0/records/0/store", json!("none"), "origins.0.databases.0.records"),
        ("/origins/0/databases/0/records/0/key", json!(null), "origins.0.databases.0.records.0.key"),
        (value_at, json!({"blob": "x"}), "origins.0.databases.0.records.0.value"),
        (value_at, json!({"ref": 7}), "origins.0.databases.0.records.0.value"),
    ] {
        client.import(with(pointer, value)).await.invalid(field);
    }
    for field in ["format", "version", "name", "archetype"] {
        client.import("{}").await.invalid(field);
    }
    let strange = json!({"name": "Shop", "archetype": "nokia-3310", "cookies": [], "origins": []});
    client.import(strange.to_string()).await.invalid("archetype");
    for none in ["[]", "null", "1"] {
        client.import(none).await.invalid("body");
    }
    client.import("").await.invalid("format");
    client.send(client.request(Method::POST, IMPORT)).await.invalid("format");
    let text = good.to_string();
    for malformed in ["[", &text[..text.len() - 1], &format!("{text}x"), "\u{0}"] {
        client.import(malformed.to_owned()).await.expect(400);
    }
    let plain = client.request(Method::POST, IMPORT).header("content-type", "text/plain").body(text.clone());
    client.send(plain).await.problem(415, "unsupported-media-type");
    let long = client.import(format!("{text}{}", " ".repeat(100_000))).await.problem(413, "payload-too-large");
    assert_eq!(long.body["limit_bytes"], 100_000);
    // The service rejects the announced length without waiting for the body.
    let announced = format!(
        "POST {IMPORT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: {MEDIA_TYPE}\r\n\
         content-length: 100001\r\nconnection: close\r\n\r\n",
        client.key.as_deref().expect("a key"),
    );
    let answer = raw::exchange(&app.base_url, announced.as_bytes()).await;
    assert_eq!(raw::status(&answer), Some(413), "{answer}");
    // Incompressible data, so that the stored size exceeds the limit.
    let noise = base64::engine::general_purpose::STANDARD.encode(rand::random::<[[u8; 32]; 1_024]>().as_flattened());
    let large =
        client.import(with("/origins/0/local_storage/0/1", json!(noise))).await.problem(413, "payload-too-large");
    assert_eq!(large.body["limit_bytes"], 20_000);

    assert_eq!(app.count("select count(*) from profiles").await, 0);
    assert_eq!(app.count("select count(*) from profile_stores").await, 0);
    assert!(app.audited(account, "profile.imported").await.is_empty());
    let imported = client.import(text).await.expect(201);
    let payload = app.last_audited(account, "profile.imported", &id(&imported)).await;
    assert_eq!(payload, json!({"source_profile_id": null, "source_account_id": null}));
    app.stop().await;
}

/// Documents of version 1 contained files of a browser. WebKit trusts the names in such files and opened and removed files of
/// the worker.
#[tokio::test]
async fn document_with_browser_files_is_rejected() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let hash = "8D9001D32C6A703D95921A77115050F33DD823D3F1730BD35215DCBECAD6DC20";
    let path = format!("databases/indexeddb/v1/https_shop.example_0/{hash}/IndexedDB.sqlite3");
    let hostile = app.data_dir.path().join("hostile.sqlite3");
    let database = rusqlite::Connection::open(&hostile).expect("a database");
    database
        .execute_batch(
            "create table BlobFiles (blobURL text, fileName text);
             insert into BlobFiles values ('blob:x', '../../../../../../../etc/passwd')",
        )
        .expect("a table");
    drop(database);
    let data = base64::engine::general_purpose::STANDARD.encode(fs::read(hostile).expect("a file"));
    let mut document = json!({
        "format": "kitfleet.profile", "version": 1, "name": "Shop", "archetype": LAUNCH, "cookies": [],
        "origins": [{"origin": "https://shop.example", "files": [{"path": path, "data": data}]}],
        "files": [{"path": path, "data": data}],
    });
    client.import(document.to_string()).await.invalid("version");
    // In version 2 these members are unknown and ignored.
    document["version"] = json!(2);
    let imported = client.import(document.to_string()).await.expect(201);
    assert_eq!(
        (&imported.headers["x-service-unknown-fields"], &imported.body["size_bytes"]),
        (&"files".parse().expect("a header"), &json!(0))
    );
    app.stop().await;
}

/// Contract: profiles 19. A store that several of them share counts once.
#[tokio::test]
async fn snapshots_and_bytes_of_an_account_are_limited() {
    let app = App::simulated()
        .roles(&[Role::Api])
        .set("limits.snapshots_per_profile", "3")
        .set("limits.profile_bytes_per_account", "100000")
        .start()
        .await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let profile = client.profile().await;
    let noise = |bytes: usize| {
        base64::engine::general_purpose::STANDARD.encode((0..bytes).map(|_| rand::random::<u8>()).collect::<Vec<_>>())
    };
    app.save_contents(&profile, &noise(20_000)).await;
    let size = client.get(&at(&profile, "")).await.expect(200).body["size_bytes"].as_i64().expect("a size");
    assert!((20_000..50_000).contains(&size), "{size}");

    let of_all = client.clone();
    let path = at(&profile, "/snapshots");
    let racing = (0..8).map(|_| {
        let (client, path) = (of_all.clone(), path.clone());
        async move { client.post(&path, json!({})).await }
    });
    let (made, refused): (Vec<_>, Vec<_>) = at_once(racing).await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), refused.len()), (3, 5));
    for answer in refused {
        let body = answer.problem(403, "feature-unavailable").body;
        assert_eq!((&body["current_snapshots"], &body["limit"]), (&json!(3), &json!(3)));
    }

    // All snapshots share one store, so that the rest of the limit is available for clones.
    let clones = usize::try_from(100_000 / size - 1).expect("a number");
    let path = at(&profile, "/clone");
    let racing = (0..clones + 3).map(|_| {
        let (client, path) = (of_all.clone(), path.clone());
        async move { client.post(&path, json!({})).await }
    });
    let (made, refused): (Vec<_>, Vec<_>) = at_once(racing).await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), refused.len()), (clones, 3));
    for answer in refused {
        let body = answer.problem(403, "feature-unavailable").body;
        assert_eq!(body["limit_bytes"], json!(100_000));
        assert!(body["current_bytes"].as_i64().is_some_and(|bytes| bytes >= size && bytes <= 100_000), "{body}");
    }
    let document = client.document_of(&profile).await.1;
    client.import(document.clone()).await.problem(403, "feature-unavailable");
    // Rejected requests leave no store, and an empty profile needs no bytes.
    assert_eq!(app.count("select count(*) from profile_stores where removable_at is not null").await, 0);
    client.profile().await;

    let clone = id(&made[0]);
    client.delete(&at(&clone, "")).await.expect(204);
    client.delete(&at(&clone, "/purge")).await.expect(204);
    client.import(document).await.expect(201);
    app.stop().await;
}

/// Contract: profiles 4.
#[tokio::test]
async fn rejected_concurrent_creates_leave_no_stores() {
    // The test runs without a worker, so that only commands remove stores.
    let app = App::simulated().roles(&[Role::Api]).set("limits.profiles.api_starter", "3").start().await;
    let (_, client) = app.customer(Tier::ApiStarter).await;
    let profile = client.profile().await;
    app.save_contents(&profile, "a login").await;
    let snapshot = id(&client.post(&at(&profile, "/snapshots"), json!({})).await.expect(201));
    let document = client.document_of(&profile).await.1;
    let racing = (0..18).map(|nth| {
        let (client, document) = (client.clone(), document.clone());
        let (clone, restore) = (at(&profile, "/clone"), format!("/v1/profile-snapshots/{snapshot}/restore"));
        async move {
            match nth % 3 {
                0 => client.post(&clone, json!({})).await,
                1 => client.post(&restore, json!({})).await,
                _ => client.import(document).await,
            }
        }
    });
    let (made, refused): (Vec<_>, Vec<_>) = at_once(racing).await.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), refused.len()), (2, 16));
    for answer in refused {
        answer.problem(403, "feature-unavailable");
    }
    for made in made {
        assert_eq!(app.read_contents(&id(&made)).await.as_deref(), Some("a login"));
    }
    assert_eq!(app.count("select count(*) from profiles").await, 3);
    assert_eq!(app.count("select count(*) from profile_stores").await, 3);
    app.stop().await;
}

/// Contract: profiles 12. The DELETE does not wait for the save.
#[tokio::test]
async fn clone_and_export_wait_for_the_save_of_an_ended_session() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let profile = client.profile().await;
    app.save_contents(&profile, "before").await;
    let session = id(&client.post(&at(&profile, "/launch"), json!({})).await.expect(201));
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    // A second destroyed session, which its worker is still saving.
    let keeping = uuid_of(&unknown_id("ses"));
    sqlx::query(
        "insert into sessions (id, account_id, worker_id, status, archetype, purpose, behavioral_profile, profile_id, destroyed_at,
                               live, ended, ended_at, profile_in_hand)
         select $1, account_id, worker_id, status, archetype, purpose, behavioral_profile, profile_id, destroyed_at,
                live, ended, ended_at, true
         from sessions where id = $2",
    )
    .bind(keeping)
    .bind(uuid_of(&session))
    .execute(&app.database.pool)
    .await
    .expect("a session");
    let waiting = ["/clone", "/snapshots"].map(|what| {
        let (client, path) = (client.clone(), at(&profile, what));
        tokio::spawn(async move { client.post(&path, json!({})).await })
    });
    let exporting = {
        let (client, profile) = (client.clone(), profile.clone());
        tokio::spawn(async move { client.document_of(&profile).await.1 })
    };
    app.save_contents(&profile, "after").await;
    app.execute("update sessions set profile_in_hand = false where id = $1", keeping).await;
    let [clone, snapshot] = waiting;
    let clone = clone.await.expect("an answer").expect(201);
    assert_eq!(app.read_contents(&id(&clone)).await.as_deref(), Some("after"));
    let snapshot = id(&snapshot.await.expect("an answer").expect(201));
    let restored = client.post(&format!("/v1/profile-snapshots/{snapshot}/restore"), json!({})).await.expect(201);
    assert_eq!(app.read_contents(&id(&restored)).await.as_deref(), Some("after"));
    assert!(exporting.await.expect("an answer").contains("\"after\""));
    app.stop().await;
}

/// Contract: profiles 13. A DELETE afterwards succeeds, and the account owner receives an event.
#[tokio::test]
async fn worker_death_publishes_a_failed_save() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let profile = client.profile().await;
    let session = id(&client.post(&at(&profile, "/launch"), json!({})).await.expect(201));
    app.signal(1, Signal::SIGKILL).await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let told: Value = eventually(Duration::from_secs(40), "the event is published", async || {
        sqlx::query_scalar("select data from events where type = 'session.profile_save_failed'")
            .fetch_optional(&app.database.pool)
            .await
            .expect("an event")
    })
    .await;
    assert_eq!(members(&told), ["session_id", "profile_id", "reason", "detail"].into());
    assert_eq!((&told["session_id"], &told["profile_id"]), (&json!(session), &json!(profile)));
    assert_eq!(told["reason"], "upload_failed");
    assert_eq!(app.count("select count(*) from sessions where profile_in_hand").await, 0);
    app.stop().await;
}
