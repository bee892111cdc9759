use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kitfleet_profiles::FOLDERS;
use kitfleet_types::ids::ProfileId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::namespaces::{run_on_small_disk, small_disk};
use crate::support::{App, Client, Role, Site, eventually, given};
use crate::webkit::{text, until_status};

pub struct Scene {
    pub app: App,
    site: Site,
    pub client: Client,
    pub profile: String,
}

impl Scene {
    async fn start() -> Self {
        Self::of(App::webkit().start().await).await
    }

    /// Process 1 is a separate worker, which can be stopped or killed.
    async fn with_separate_worker() -> Self {
        Self::of(App::webkit().roles(&[Role::Api, Role::Worker]).start().await).await
    }

    pub async fn of(app: App) -> Self {
        let (site, client) = (Site::start().await, app.client().await);
        let profile = client.profile().await;
        Self { app, site, client, profile }
    }

    pub async fn launch(&self) -> String {
        self.client.session_with(json!({"profile_id": self.profile})).await
    }

    pub async fn destroy(&self, session: &str) {
        self.client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }

    /// Makes the site store a name in cookies, local storage and `IndexedDB`.
    pub async fn sign_in(&self, session: &str, name: &str) {
        self.client.navigate(session, &self.site.url(&format!("/sign-in?name={name}"))).await;
        self.until_shown(session, "#done", name).await;
    }

    /// Ends a session of Ada, and returns one of Grace.
    async fn grace_after_ada(&self) -> String {
        let first = self.launch().await;
        self.sign_in(&first, "ada").await;
        self.destroy(&first).await;
        let second = self.launch().await;
        self.sign_in(&second, "grace").await;
        second
    }

    async fn until_shown(&self, session: &str, selector: &str, wanted: &str) {
        eventually(Duration::from_secs(5), wanted, async || {
            (text(&self.client, session, selector).await == wanted).then_some(())
        })
        .await;
    }

    async fn until_stored(&self, session: &str, wanted: &str) {
        let told = eventually(Duration::from_secs(30), wanted, async || {
            let told = text(&self.client, session, "#result").await;
            (told != "not yet").then_some(told)
        })
        .await;
        assert_eq!(told, wanted);
    }

    pub async fn assert_remembered(&self, session: &str, name: &str) {
        self.assert_remembered_with(session, name, name).await;
    }

    async fn assert_remembered_with(&self, session: &str, name: &str, left: &str) {
        self.client.navigate(session, &self.site.url("/remembered")).await;
        self.until_shown(session, "#database", name).await;
        assert_eq!(text(&self.client, session, "#local").await, format!("{name} {left}"));
        let cookies = text(&self.client, session, "#cookies").await;
        let mut cookies: Vec<_> = cookies.as_str().expect("text").split("; ").collect();
        cookies.sort_unstable();
        assert_eq!(cookies, [format!("login={name}"), format!("visit={name}")]);
    }

    async fn failed_save(&self) -> Value {
        let told = eventually(Duration::from_mins(1), "the event is published", async || {
            let told: Vec<Value> =
                sqlx::query_scalar("select data from events where type = 'session.profile_save_failed'")
                    .fetch_all(&self.app.database.pool)
                    .await
                    .expect("events");
            (!told.is_empty()).then_some(told)
        })
        .await;
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].clone()
    }

    /// Contract: events 6.
    async fn assert_not_saved(&self, session: &str, reason: &str) {
        let mut told = self.failed_save().await;
        let detail = told.as_object_mut().expect("an object").remove("detail");
        // The detail is a sentence of the service, whatever the underlying error.
        assert!(detail.is_some_and(|detail| detail.as_str().is_some_and(|detail| detail.ends_with('.'))));
        assert_eq!(told, json!({"session_id": session, "profile_id": self.profile, "reason": reason}));
    }

    async fn assert_no_failed_save(&self) {
        assert_eq!(self.app.count("select count(*) from events where type = 'session.profile_save_failed'").await, 0);
    }

    async fn stored_generation(&self) -> i64 {
        sqlx::query_scalar("select stored_generation from profiles where id = $1")
            .bind(self.profile.parse::<ProfileId>().expect("an id"))
            .fetch_one(&self.app.database.pool)
            .await
            .expect("the profile")
    }

    pub async fn until_saved(&self, generation: i64) {
        eventually(Duration::from_secs(10), "the profile is saved", async || {
            (self.stored_generation().await == generation).then_some(())
        })
        .await;
    }

    fn remove_sites_files(&self) {
        let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let browsers = entries(self.app.data_dir.path().join("data/browsers")).flat_map(entries);
        let folders = browsers.flat_map(|browser| FOLDERS.map(|name| browser.join("session").join(name)));
        for folder in folders.filter(|folder| folder.is_dir()) {
            fs::remove_dir_all(folder).expect("the folder");
        }
    }

    fn host(&self) -> Pid {
        let [host] = self.app.processes("kitfleet-host")[..] else { unreachable!("one session has one host") };
        host
    }
}

/// Contract: profiles 8. Cookies include `HttpOnly` and session cookies. Contract: notifications 2.
#[tokio::test]
async fn login_is_restored_in_a_session_on_another_worker() {
    let mut scene = Scene::with_separate_worker().await;
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    scene.destroy(&first).await;
    scene.until_saved(1).await;
    let answer = scene.client.get(&format!("/v1/profiles/{}", scene.profile)).await.expect(200);
    assert!(answer.body["size_bytes"].as_i64() > Some(0), "{}", answer.body);
    let told = scene.client.get("/v1/account/notifications").await.expect(200).body;
    let told = told["data"].as_array().expect("a list").iter().filter(|entry| entry["event"] == "profile.saved");
    let saved = json!({"profile_id": scene.profile, "size_bytes": answer.body["size_bytes"]});
    assert_eq!(told.map(|entry| entry["data"].clone()).collect::<Vec<_>>(), [saved]);

    scene.app.signal(1, Signal::SIGTERM).await;
    scene.app.start(Role::Worker);
    scene.app.ready().await;
    let second = scene.launch().await;
    scene.assert_remembered(&second, "ada").await;
    // A session without the profile has none of the data.
    let stranger = scene.client.session().await;
    scene.client.navigate(&stranger, &scene.site.url("/remembered")).await;
    assert_eq!(text(&scene.client, &stranger, "#cookies").await, "");
    assert_eq!(text(&scene.client, &stranger, "#local").await, "null null");
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 10.
#[tokio::test]
async fn launch_after_destroy_has_the_latest_state() {
    let scene = Scene::start().await;
    let mut session = scene.launch().await;
    for name in ["ada", "grace", "mary", "joan"] {
        scene.sign_in(&session, name).await;
        scene.destroy(&session).await;
        session = scene.launch().await;
        scene.assert_remembered(&session, name).await;
    }
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 17, 18, 20. An export that another account imports is a copy too.
#[tokio::test]
async fn copies_of_a_profile_contain_its_login() {
    let mut scene = Scene::start().await;
    let made = async |client: &Client, path: &str, body: Value| {
        let made = client.post(path, body).await.expect(201).body;
        made["id"].as_str().expect("an id").to_owned()
    };
    let at = format!("/v1/profiles/{}", scene.profile);
    // The requests wait for the save of the ended session.
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    scene.destroy(&first).await;
    let snapshot = made(&scene.client, &format!("{at}/snapshots"), json!({})).await;
    let second = scene.launch().await;
    scene.sign_in(&second, "grace").await;
    scene.destroy(&second).await;
    let document = scene.client.get(&format!("{at}/export")).await.expect(200).body;
    let clone = made(&scene.client, &format!("{at}/clone"), json!({})).await;
    let restored = made(&scene.client, &format!("/v1/profile-snapshots/{snapshot}/restore"), json!({})).await;
    let stranger = scene.app.client().await;
    let imported = made(&stranger, "/v1/profiles/import", document).await;

    let (owner, original) = (scene.client.clone(), scene.profile.clone());
    for (client, profile, name) in [
        (&owner, clone, "grace"),
        (&owner, restored, "ada"),
        (&stranger, imported, "grace"),
        (&owner, original, "grace"),
    ] {
        (scene.client, scene.profile) = (client.clone(), profile);
        let session = scene.launch().await;
        scene.assert_remembered(&session, name).await;
    }
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 20, 21. They have the same keys and order, also in indexes, and the same key generators. Records with
/// values that only a browser can hold are left out, and listed.
#[tokio::test]
async fn imported_profile_has_the_stored_values_of_pages() {
    let mut scene = Scene::start().await;
    let first = scene.launch().await;
    scene.client.navigate(&first, &scene.site.url("/stored?do=keep")).await;
    scene.until_stored(&first, "kept").await;
    scene.destroy(&first).await;
    let document = scene.client.get(&format!("/v1/profiles/{}/export", scene.profile)).await.expect(200).body;
    let left_out = json!([{
        "origin": scene.site.url(""), "database": "all of it \u{1f600}", "store": "only blobs", "reason": "unsupported", "count": 2,
    }]);
    assert_eq!(document["left_out"], left_out);
    let stranger = scene.app.client().await;
    let imported = stranger.post("/v1/profiles/import", document.clone()).await.expect(201).body;
    scene.client = stranger;
    scene.profile = imported["id"].as_str().expect("an id").to_owned();
    // The imported profile can be exported before a browser has opened it, with the same contents.
    let mut again = scene.client.get(&format!("/v1/profiles/{}/export", scene.profile)).await.expect(200).body;
    for own in ["exported_at", "source_profile_id", "source_account_id", "left_out"] {
        again[own] = document[own].clone();
    }
    assert!(again == document, "{again:#}\n instead of {document:#}");
    // Twice, because the browser opens and changes the data in the first session.
    for next in [5, 6] {
        let session = scene.launch().await;
        scene.client.navigate(&session, &scene.site.url(&format!("/stored?do=check&next={next}"))).await;
        scene.until_stored(&session, "all the same").await;
        scene.destroy(&session).await;
    }
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

#[tokio::test]
async fn profile_without_cookies_can_be_launched_repeatedly() {
    let scene = Scene::start().await;
    for _ in 0..3 {
        let session = scene.launch().await;
        scene.client.navigate(&session, &scene.site.url("/storage?n=10")).await;
        scene.destroy(&session).await;
    }
    let profile = scene.client.get(&format!("/v1/profiles/{}", scene.profile)).await.expect(200).body;
    assert!(profile["size_bytes"].as_i64() > Some(0), "{profile}");
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// docs/profile-format.md: a profile with very many cookies of a site is saved with the newest of them.
#[tokio::test]
async fn profile_with_very_many_cookies_is_saved() {
    let scene = Scene::of(App::webkit().set("sessions.open_timeout", "90s").start().await).await;
    let session = scene.launch().await;
    let navigate = async |path: &str| {
        let body = json!({"url": scene.site.url(path), "timeout_ms": 120_000});
        scene.client.operate(&session, "navigate", body).await.expect(200);
    };
    for from in (0..10_500).step_by(1_500) {
        navigate(&format!("/many-cookies?n=1500&from={from}")).await;
    }
    navigate("/storage?n=1").await;
    scene.destroy(&session).await;
    eventually(Duration::from_mins(1), "the profile is saved", async || {
        (scene.stored_generation().await == 1).then_some(())
    })
    .await;
    let document = scene.client.get(&format!("/v1/profiles/{}/export", scene.profile)).await.expect(200).body;
    let cookies = document["cookies"].as_array().expect("cookies");
    let names: Vec<_> = cookies.iter().map(|cookie| cookie["name"].as_str().expect("a name")).collect();
    assert_eq!((names.len(), names.contains(&"cookie10499"), names.contains(&"cookie0")), (3_000, true, false));
    let next = scene.launch().await;
    scene.destroy(&next).await;
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 11. The session reaches the free tier's time limit, or its account is suspended.
#[tokio::test]
async fn session_ended_by_the_service_is_saved() {
    let app = App::webkit().set("sessions.free_tier_cap", "1s").start().await;
    let account = app.account(Tier::SoloManual).await;
    let (site, client) = (Site::start().await, app.client_of(account, &["account_owner"]).await);
    let profile = client.profile().await;
    let scene = Scene { app, site, client, profile };
    let order = async |order: &[&str]| {
        scene.app.run(&[&["account", order[0], &account.to_string()], &order[1..]].concat()).await.code(0);
    };
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    order(&["set-tier", "free"]).await;
    eventually(Duration::from_secs(10), "the session reaches its time limit", async || {
        scene.app.run(&["sweep", "free-tier"]).await.code(0);
        (scene.app.status_of(&first).await == "destroyed").then_some(())
    })
    .await;
    scene.until_saved(1).await;

    order(&["set-tier", "solo_manual"]).await;
    let second = scene.launch().await;
    scene.assert_remembered(&second, "ada").await;
    scene.sign_in(&second, "grace").await;
    order(&["suspend"]).await;
    assert_eq!(scene.app.status_of(&second).await, "destroyed");
    scene.until_saved(2).await;

    order(&["reactivate"]).await;
    let third = scene.launch().await;
    scene.assert_remembered(&third, "grace").await;
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 10. Only one store is kept. `KITFLEET_TEST_PROFILE_ROUNDS=1000` makes a long run.
#[tokio::test]
async fn profile_size_stays_constant_with_use() {
    let scene = Scene::start().await;
    let mut sizes = Vec::new();
    for round in 1..=given("KITFLEET_TEST_PROFILE_ROUNDS", 20) {
        let session = scene.launch().await;
        scene.sign_in(&session, "ada").await;
        scene.destroy(&session).await;
        scene.until_saved(round).await;
        let profile = scene.client.get(&format!("/v1/profiles/{}", scene.profile)).await.expect(200).body;
        sizes.push(profile["size_bytes"].as_i64().expect("a size"));
        // The previous store is removed right after the save.
        eventually(Duration::from_secs(5), "one store is left", async || {
            (scene.app.count("select count(*) from profile_stores").await == 1).then_some(())
        })
        .await;
    }
    let last = scene.launch().await;
    scene.assert_remembered(&last, "ada").await;
    // The size varies, because a database is stored with or without its journal.
    let (early, late) = sizes.split_at(sizes.len() / 2);
    assert!(late.iter().max().map(|late| late * 4) <= early.iter().max().map(|early| early * 5), "{sizes:?}");
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 12, 13.
#[tokio::test]
async fn hanging_save_leaves_time_for_the_next_session() {
    let scene = Scene::of(App::webkit().set("sessions.open_timeout", "12s").start().await).await;
    let second = scene.grace_after_ada().await;
    // The lock blocks writes to stores but not reads.
    let mut lock = scene.app.database.pool.begin().await.expect("a transaction");
    sqlx::query("lock table profile_stores in share mode").execute(&mut *lock).await.expect("a lock");
    scene.destroy(&second).await;
    let third = scene.launch().await;
    scene.assert_remembered(&third, "ada").await;
    scene.assert_not_saved(&second, "upload_failed").await;
    lock.rollback().await.expect("a rollback");
    scene.app.stop().await;
}

/// Contract: profiles 14.
#[tokio::test]
async fn save_is_retried_after_a_transient_error() {
    let scene = Scene::start().await;
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    // A sequence also counts inserts that are rolled back.
    let refuse_three_times = "create sequence attempts;
        create function refuse() returns trigger language plpgsql as
            'begin if nextval(''attempts'') <= 3 then raise exception ''not now''; end if; return new; end';
        create trigger refuse before insert on profile_stores for each row execute function refuse()";
    sqlx::raw_sql(refuse_three_times).execute(&scene.app.database.pool).await.expect("a trigger");
    scene.destroy(&first).await;
    let second = scene.launch().await;
    scene.assert_remembered(&second, "ada").await;
    assert_eq!(scene.app.count("select last_value from attempts").await, 4);
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 11.
#[tokio::test]
async fn worker_shutdown_saves_profiles() {
    let mut scene = Scene::with_separate_worker().await;
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    scene.app.signal(1, Signal::SIGTERM).await;
    assert_eq!(scene.client.status(&first).await, "errored");
    assert_eq!(scene.stored_generation().await, 1);

    scene.app.start(Role::Worker);
    scene.app.ready().await;
    let second = scene.launch().await;
    scene.assert_remembered(&second, "ada").await;
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 11.
#[tokio::test]
async fn session_with_an_endless_loop_is_saved() {
    let scene = Scene::start().await;
    let first = scene.launch().await;
    scene.client.navigate(&first, &scene.site.url("/sign-in?name=ada&stuck=true")).await;
    eventually(Duration::from_secs(5), "the page is in its loop", async || (scene.site.hits() == 1).then_some(()))
        .await;
    scene.destroy(&first).await;
    let second = scene.launch().await;
    // The page could not run its handler for unloading.
    scene.assert_remembered_with(&second, "ada", "null").await;
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 13.
#[tokio::test]
async fn empty_browser_does_not_replace_the_profile() {
    let scene = Scene::start().await;
    // An empty session of an empty profile publishes no failed save.
    let empty = scene.launch().await;
    scene.destroy(&empty).await;
    let first = scene.launch().await;
    scene.assert_no_failed_save().await;
    scene.sign_in(&first, "ada").await;
    scene.destroy(&first).await;

    let second = scene.launch().await;
    scene.client.navigate(&second, &scene.site.url("/forget")).await;
    scene.remove_sites_files();
    scene.destroy(&second).await;
    scene.assert_not_saved(&second, "degenerate_dump").await;

    let third = scene.launch().await;
    scene.assert_remembered(&third, "ada").await;
    scene.app.stop().await;
}

/// Contract: profiles 13.
#[tokio::test]
async fn earlier_session_does_not_replace_a_later_state() {
    let scene = Scene::start().await;
    let second = scene.grace_after_ada().await;
    // The row that a later session would have left, after this session's worker was considered dead.
    sqlx::query("update profiles set generation = 7, stored_generation = 7")
        .execute(&scene.app.database.pool)
        .await
        .expect("an update");
    scene.destroy(&second).await;
    scene.assert_not_saved(&second, "superseded").await;
    let third = scene.launch().await;
    scene.assert_remembered(&third, "ada").await;
    let stores = "select count(*) from profile_stores";
    eventually(Duration::from_secs(5), "unreferenced stores are removed", async || {
        (scene.app.count(stores).await == 1).then_some(())
    })
    .await;
    scene.app.stop().await;
}

/// Contract: profiles 13.
#[tokio::test]
async fn hanging_browser_leaves_the_profile_unchanged() {
    let scene = Scene::start().await;
    let second = scene.grace_after_ada().await;
    kill(scene.host(), Signal::SIGSTOP).expect("it runs");
    scene.destroy(&second).await;
    scene.assert_not_saved(&second, "serialize_failed").await;
    let third = scene.launch().await;
    scene.assert_remembered(&third, "ada").await;
    scene.app.stop().await;
}

/// Contract: profiles 11.
#[tokio::test]
async fn errored_session_is_not_saved() {
    let scene = Scene::start().await;
    let second = scene.grace_after_ada().await;
    kill(scene.host(), Signal::SIGKILL).expect("it runs");
    until_status(&scene.client, &second, "errored").await;
    let third = scene.launch().await;
    scene.assert_remembered(&third, "ada").await;
    scene.assert_no_failed_save().await;
    scene.app.stop().await;
}

/// Contract: profiles 13.
#[tokio::test]
async fn worker_death_during_save_leaves_the_profile_unchanged() {
    let mut scene = Scene::with_separate_worker().await;
    let second = scene.grace_after_ada().await;

    // The lock blocks writes to stores but not reads.
    let mut lock = scene.app.database.pool.begin().await.expect("a transaction");
    sqlx::query("lock table profile_stores, profile_store_chunks in exclusive mode")
        .execute(&mut *lock)
        .await
        .expect("a lock");
    scene.destroy(&second).await;
    eventually(Duration::from_secs(10), "the worker writes", async || {
        let waiting = "select count(*) from pg_locks where not granted and relation in
                       ('profile_stores'::regclass, 'profile_store_chunks'::regclass)";
        (scene.app.count(waiting).await > 0).then_some(())
    })
    .await;
    scene.app.signal(1, Signal::SIGKILL).await;
    lock.rollback().await.expect("a rollback");

    scene.app.start(Role::Worker);
    // New sessions may be placed on the dead worker until it is marked as lost.
    let third = eventually(Duration::from_secs(30), "a session can be created again", async || {
        let created = scene.client.post("/v1/sessions", json!({"profile_id": scene.profile})).await;
        created.body["id"].as_str().filter(|_| created.status == 201).map(ToOwned::to_owned)
    })
    .await;
    scene.assert_remembered(&third, "ada").await;
    assert_eq!(scene.stored_generation().await, 1);
    scene.assert_not_saved(&second, "upload_failed").await;
    scene.app.stop().await;
}

fn fill(disk: &Path, name: &str) -> PathBuf {
    let path = disk.join(name);
    let mut filler = File::create(&path).expect("a file");
    for piece in [1 << 20, 1 << 12, 1] {
        let zeros = vec![0; piece];
        while filler.write_all(&zeros).is_ok() {}
    }
    path
}

/// Contract: profiles 24. Operations that write are rejected until there is free space.
#[tokio::test]
async fn full_disk_leaves_profiles_unchanged() {
    run_on_small_disk("webkit::profiles::on_a_small_disk").await;
}

#[tokio::test]
#[ignore = "runs on a separate disk that another test mounts"]
async fn on_a_small_disk() {
    let disk = small_disk(64);
    // The setting places sessions on the worker despite its full disk (workers 17).
    let scene = Scene::of(App::webkit().set("worker.free_disk_bytes", "0").start().await).await;
    let first = scene.launch().await;
    scene.sign_in(&first, "ada").await;
    scene.destroy(&first).await;
    scene.until_saved(1).await;
    let at = |what: &str| format!("/v1/profiles/{}{what}", scene.profile);
    let document = scene.client.get(&at("/export")).await.expect(200).body;
    let live = scene.launch().await;

    let filler = fill(&disk, "filler");
    scene.client.get(&at("/export")).await.problem(503, "feature-unavailable");
    scene.client.post(&at("/clone"), json!({})).await.problem(503, "feature-unavailable");
    scene.client.post("/v1/profiles/import", document.clone()).await.problem(503, "feature-unavailable");
    let profiles = scene.client.get("/v1/profiles").await.expect(200).body;
    assert_eq!(profiles["data"].as_array().map(Vec::len), Some(1), "{profiles}");
    // The page cannot store anything now, and loses stored data.
    scene.client.operate(&live, "navigate", json!({"url": scene.site.url("/sign-in?name=grace")})).await;
    scene.destroy(&live).await;
    scene.assert_not_saved(&live, "serialize_failed").await;
    let more_filler = fill(&disk, "more-filler");
    let opened = scene.client.post("/v1/sessions", json!({"profile_id": scene.profile})).await;
    opened.problem(502, "driver-error");

    fs::remove_file(filler).expect("the file");
    fs::remove_file(more_filler).expect("the file");
    let next = scene.launch().await;
    scene.assert_remembered(&next, "ada").await;
    scene.client.get(&at("/export")).await.expect(200);
    scene.client.post("/v1/profiles/import", document).await.expect(201);
    scene.app.stop().await;
}
