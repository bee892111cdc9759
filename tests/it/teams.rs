//! Contract: teams; authorization 9 to 13. The credential each route requires is tested in [`crate::authentication`].

mod invites;
mod roles;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api_keys::{KEYS, Minted, mint, revocations};
use crate::support::people::Person;
use crate::support::records::{AuditRow, uuid_of};
use crate::support::{Answer, App, Client, assert_timestamp, at_once, eventually, members, plain_http, unknown_id};

const INVITES: &str = "/v1/team/invites";
const MEMBERS: &str = "/v1/team/members";
const OWNERS: &str = "/v1/team/owners";
const TEAMS: &str = "/v1/teams";
const ME: &str = "/v1/account/me";
const PREFERENCES: &str = "/v1/account/email-preferences";

impl Client {
    /// The same client with `X-Service-Account`.
    pub fn on(&self, owner: impl Display) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("x-service-account", owner.to_string().parse().expect("a header"));
        let http = plain_http().default_headers(headers).build().expect("an HTTP client");
        Self { http, ..self.clone() }
    }

    async fn invite(&self, email: &str, role: &str) -> Answer {
        self.post(INVITES, json!({"email": email, "role": role})).await
    }

    async fn accept(&self, token: &str) -> Answer {
        self.post(invites::ACCEPT, json!({"token": token})).await
    }

    async fn rename_team(&self, id: &str, body: Value) -> Answer {
        self.send(self.request(Method::PATCH, &format!("{TEAMS}/{id}")).json(&body)).await
    }

    async fn opt_out(&self) -> Answer {
        let body = json!({"event_type": "tier-changed", "opted_in": false});
        self.send(self.request(Method::PUT, PREFERENCES).json(&body)).await
    }

    pub async fn remove(&self, membership: &str) -> Answer {
        self.delete(&format!("{MEMBERS}/{membership}")).await
    }

    async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.expect(200).body;
        assert_eq!(members(&list), BTreeSet::from(["data"]), "{path}");
        list["data"].as_array().expect("a list").clone()
    }

    async fn mint(&self, scopes: &[&str]) -> Answer {
        self.post(KEYS, json!({"name": "CI", "scopes": scopes})).await
    }
}

impl App {
    /// Returns the token of the mail's link.
    async fn invited(&self, owner: &Person, email: &str, role: &str) -> String {
        let count = self.mails_to(email, Template::TeamInvite).len();
        owner.client.invite(email, role).await.expect(202);
        self.mail_number(count + 1, email, Template::TeamInvite).await.token
    }

    /// Returns the id of the membership.
    pub async fn join(&self, owner: &Person, member: &Person, role: &str) -> String {
        let token = self.invited(owner, &member.email, role).await;
        let accepted = member.client.accept(&token).await.expect(200).body;
        accepted["membership"]["id"].as_str().expect("an id").to_owned()
    }

    async fn live_keys(&self, owner: AccountId, maker: AccountId) -> i64 {
        let live = "select count(*) from api_keys
                    where account_id = $1 and created_by_account_id = $2 and revoked_at is null";
        let live = sqlx::query_scalar(live).bind(owner.as_uuid()).bind(maker.as_uuid());
        live.fetch_one(&self.database.pool).await.expect("a count")
    }

    /// Exactly this many.
    async fn wait_for_lock_waiters(&self, statements: i64) {
        let query = "select count(*) from pg_stat_activity
                     where datname = current_database() and wait_event_type = 'Lock'";
        eventually(Duration::from_secs(10), "the statements wait for locks", async || {
            (self.count(query).await == statements).then_some(())
        })
        .await;
    }

    pub async fn suspend(&self, person: &Person) {
        self.run(&["account", "suspend", &person.account.to_string()]).await.code(0);
    }

    pub async fn reactivate(&self, person: &Person) {
        self.run(&["account", "reactivate", &person.account.to_string()]).await.code(0);
    }
}

/// Parts of an audit row that do not vary between runs.
fn row(row: &AuditRow) -> (&str, Option<Uuid>, &str, Option<&str>, Value) {
    let AuditRow { actor_type, actor_account_id, action, target_resource_id, payload, .. } = row;
    (actor_type, *actor_account_id, action, target_resource_id.as_deref(), payload.clone())
}

pub async fn delete_me(person: &Person) -> Answer {
    let body = json!({"confirm": "delete-account"});
    person.client.send(person.client.request(Method::DELETE, ME).json(&body)).await
}

/// Contract: teams 1, 2.
#[tokio::test]
async fn every_account_has_a_team() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Free).await;
    let signed_up = app.signed_in(&app.sign_up("grace@example.com").await);
    let args = ["account", "create", "--email", "joan@example.com", "--name", "Joan", "--tier", "api_scale", "--json"];
    let joan = app.run(&args).await.code(0).json()["id"].as_str().expect("an id").parse().expect("an account's id");
    let joan = app.client_of(joan, &["read"]).await;
    for (client, name) in [(&ada.client, "Ada"), (&signed_up, "Ada"), (&joan, "Joan")] {
        let me = client.get(ME).await.expect(200).body;
        let teams = client.list(TEAMS).await;
        let [team] = &teams[..] else { panic!("{teams:?}") };
        let fields = ["id", "name", "slug", "owner_account_id", "created_at", "updated_at"];
        assert_eq!(members(team), BTreeSet::from(fields));
        assert_eq!(uuid_of(team["id"].as_str().expect("an id")).get_version_num(), 7);
        assert!(team["id"].as_str().expect("an id").starts_with("team_"), "{team}");
        assert_eq!((&team["name"], &team["slug"]), (&json!(name), &Value::Null));
        assert_eq!((&team["owner_account_id"], &team["created_at"]), (&me["id"], &me["created_at"]));
        assert_timestamp(&team["updated_at"]);
        for list in [INVITES, MEMBERS, OWNERS] {
            assert_eq!(client.list(list).await, <[Value; 0]>::default(), "{list}");
        }
        assert_eq!(me["teams"], json!([]));
    }
    app.stop().await;
}

/// Contract: teams 2; audit-log 16.
#[tokio::test]
async fn rename_validates_and_records_the_name() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let before = ada.client.list(TEAMS).await.remove(0);
    let id = before["id"].as_str().expect("an id");
    let body = json!({"name": "  Engine room\u{a0}", "surprise": 1});
    let renamed = ada.client.rename_team(id, body).await.expect(200);
    assert_eq!(renamed.headers["x-service-unknown-fields"], "surprise");
    assert_eq!(members(&renamed.body), BTreeSet::from(["team"]));
    let team = &renamed.body["team"];
    assert_eq!((&team["name"], &team["slug"]), (&json!("Engine room"), &Value::Null));
    assert_eq!((&team["id"], &team["created_at"]), (&before["id"], &before["created_at"]));
    assert!(team["updated_at"].as_str() > before["updated_at"].as_str(), "{team}");
    assert_eq!(ada.client.list(TEAMS).await, std::slice::from_ref(team));
    let longest = "\u{e9}".repeat(120);
    for name in ["x", &longest] {
        assert_eq!(ada.client.rename_team(id, json!({"name": name})).await.expect(200).body["team"]["name"], name);
    }
    for body in [
        json!({}),
        json!({"name": null}),
        json!({"name": 1}),
        json!({"name": ""}),
        json!({"name": "  "}),
        json!({"name": format!("{longest}x")}),
        json!({"name": "a\nb"}),
        json!({"name": "a\u{0}b"}),
    ] {
        ada.client.rename_team(id, body).await.invalid("name");
    }

    let theirs = bob.client.list(TEAMS).await.remove(0);
    let foreign = theirs["id"].as_str().expect("an id");
    let uppercase = id.to_uppercase();
    let mut details = BTreeSet::new();
    for id in [foreign, &unknown_id("team"), &unknown_id("acc"), "x", &uppercase] {
        let answer = ada.client.rename_team(id, json!({"name": "Mine"})).await.problem(404, "not-found");
        details.insert(answer.body["detail"].to_string());
    }
    assert_eq!(details.len(), 1, "the answers differ: {details:?}");
    assert_eq!(bob.client.list(TEAMS).await, [theirs]);

    let log = app.audited(ada.account, "team.updated").await;
    let names: Vec<_> = log.iter().map(|row| row.payload.clone()).collect();
    let expected = [("Ada", "Engine room"), ("Engine room", "x"), ("x", &longest)];
    assert_eq!(names, expected.map(|(previous, name)| json!({"previous_name": previous, "name": name})));
    assert!(log.iter().all(|row| row.target_resource_id.as_deref() == Some(id)));
    assert_eq!(log[0].ip_address.as_deref(), Some("127.0.0.1"), "the owner's own row has an address");
    app.stop().await;
}

/// Contract: teams 8; events 4; audit-log 16. It revokes them in the same transaction, and no key without a recorded creator.
#[tokio::test]
async fn removal_revokes_the_members_keys() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let eve = app.person(Tier::Enterprise).await;
    let membership = app.join(&ada, &bob, "admin").await;
    app.join(&ada, &eve, "admin").await;
    app.join(&eve, &bob, "admin").await;
    let on_ada = bob.client.on(ada.account);
    let made = on_ada.mint(&["account_owner"]).await.expect(201);
    assert_eq!(
        (&made.body["account_id"], &made.body["created_by_account_id"]),
        (&json!(ada.account), &json!(bob.account))
    );
    let first = Minted::of(&made);
    let by_key = first.client(&app.base_url).mint(&["read"]).await.expect(201);
    assert_eq!(by_key.body["created_by_account_id"], json!(bob.account));
    let second = Minted::of(&by_key);
    let rotated = first.client(&app.base_url).post(&format!("{}/rotate", second.path()), json!({})).await;
    let third = Minted::of(&rotated);
    // The key cannot create an OAuth client, which would outlive the membership.
    let program = json!({"name": "nightly", "scopes": ["read"]});
    first.client(&app.base_url).post("/v1/oauth/clients", program).await.problem(403, "forbidden");
    let gone = mint(&on_ada, &["read"]).await;
    on_ada.delete(&gone.path()).await.expect(204);
    let expired = mint(&on_ada, &["read"]).await;
    app.execute("update api_keys set expires_at = now() where id = $1", uuid_of(&expired.id)).await;
    let kept = [
        mint(&ada.client, &["read"]).await.client(&app.base_url),
        mint(&eve.client.on(ada.account), &["read"]).await.client(&app.base_url),
        mint(&bob.client, &["read"]).await.client(&app.base_url),
        mint(&bob.client.on(eve.account), &["read"]).await.client(&app.base_url),
        app.client_of(ada.account, &["read"]).await,
    ];
    for key in [&first, &second, &third] {
        key.client(&app.base_url).get(KEYS).await.expect(200);
    }

    for (client, id) in [
        (&eve.client, membership.as_str()),
        (&bob.client, &membership),
        (&ada.client, &unknown_id("mem")),
        (&ada.client, &unknown_id("acc")),
        (&ada.client, "x"),
    ] {
        client.remove(id).await.problem(404, "not-found");
    }
    let removed = ada.client.remove(&membership).await.expect(204);
    assert_eq!(removed.body, Value::Null);
    ada.client.remove(&membership).await.problem(404, "not-found");

    for key in [&first, &second, &third, &gone, &expired] {
        key.client(&app.base_url).get(TEAMS).await.problem(401, "unauthorized");
    }
    for key in &kept {
        key.get(KEYS).await.expect(200);
    }
    on_ada.get(KEYS).await.problem(403, "forbidden");
    assert_eq!(bob.client.list(OWNERS).await.len(), 1);
    assert_eq!(ada.client.list(MEMBERS).await.len(), 1);

    let ids = BTreeSet::from([&first.id, &second.id, &third.id].map(String::as_str));
    let events = revocations(&app, ada.account).await;
    assert_eq!(events.len(), 4, "three events of the removal and one earlier: {events:?}");
    for event in events.iter().skip(1) {
        assert_eq!(members(event), BTreeSet::from(["api_key_id", "name", "revoked_at"]));
        assert!(ids.contains(event["api_key_id"].as_str().expect("an id")), "{event}");
    }
    let log = app.audited(ada.account, "team.member_removed").await;
    let [row] = &log[..] else { panic!("{log:?}") };
    assert_eq!(
        (row.actor_account_id, row.target_resource_id.as_ref()),
        (Some(ada.account.as_uuid()), Some(&membership))
    );
    assert_eq!(members(&row.payload), BTreeSet::from(["revoked_api_key_ids"]));
    let named = row.payload["revoked_api_key_ids"].as_array().expect("a list");
    assert_eq!(named.iter().filter_map(Value::as_str).collect::<BTreeSet<_>>(), ids);
    assert_eq!(app.audited(ada.account, "api_key.revoked").await.len(), 1, "a removal writes no row for each key");

    // A member without keys leaves an empty list, and can be invited again.
    let membership = app.join(&ada, &bob, "member").await;
    ada.client.remove(&membership).await.expect(204);
    let log = app.audited(ada.account, "team.member_removed").await;
    assert_eq!(log[1].payload, json!({"revoked_api_key_ids": []}));
    app.stop().await;
}

/// Contract: teams 8.
#[tokio::test]
async fn removal_and_key_creation_are_serialized() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let on_ada = bob.client.on(ada.account);
    let owners_key = mint(&ada.client, &["read"]).await;
    let rotate = format!("{}/rotate", owners_key.path());
    let minting = async |count: i64| {
        let (one, other, rotate) = (on_ada.clone(), on_ada.clone(), rotate.clone());
        let minted = tokio::spawn(async move { one.mint(&["read"]).await });
        let rotated = tokio::spawn(async move { other.post(&rotate, json!({})).await });
        app.wait_for_lock_waiters(count).await;
        (minted, rotated)
    };

    // The removal commits first; the key requests have not locked the membership yet.
    let membership = app.join(&ada, &bob, "admin").await;
    let mut held = app.database.pool.begin().await.expect("a transaction");
    let lock = sqlx::query("select from accounts where id = $1 for no key update").bind(ada.account.as_uuid());
    lock.execute(&mut *held).await.expect("a lock");
    let (minted, rotated) = minting(2).await;
    ada.client.remove(&membership).await.expect(204);
    held.commit().await.expect("a commit");
    minted.await.expect("a task").problem(403, "forbidden");
    rotated.await.expect("a task").problem(403, "forbidden");
    assert_eq!(app.live_keys(ada.account, bob.account).await, 0);
    owners_key.client(&app.base_url).get(TEAMS).await.expect(200);

    // The key requests hold the membership first and wait for their write.
    let membership = app.join(&ada, &bob, "admin").await;
    let mut held = app.database.pool.begin().await.expect("a transaction");
    let lock = sqlx::query("select from accounts where id = $1 for update").bind(bob.account.as_uuid());
    lock.execute(&mut *held).await.expect("a lock");
    let (minted, rotated) = minting(2).await;
    let (remover, id) = (ada.client.clone(), membership.clone());
    let removal = tokio::spawn(async move { remover.remove(&id).await });
    app.wait_for_lock_waiters(3).await;
    held.commit().await.expect("a commit");
    removal.await.expect("a task").expect(204);
    let answers = [minted.await.expect("a task"), rotated.await.expect("a task")];
    // Changes of one account are counted one at a time, so the second request may find the membership removed.
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert!(!made.is_empty(), "at least one change succeeded");
    for answer in &made {
        Minted::of(answer).client(&app.base_url).get(TEAMS).await.problem(401, "unauthorized");
    }
    for answer in refused {
        answer.problem(403, "forbidden");
    }
    assert_eq!(app.live_keys(ada.account, bob.account).await, 0);
    let log = app.audited(ada.account, "team.member_removed").await;
    assert_eq!(log[1].payload["revoked_api_key_ids"].as_array().map(Vec::len), Some(made.len()));
    app.stop().await;
}

/// In random order, with the removal of the member or the member's deletion of the own account.
#[tokio::test]
async fn no_key_survives_a_concurrent_removal() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    for round in 0..8 {
        let bob = app.person(Tier::Enterprise).await;
        let membership = app.join(&ada, &bob, "admin").await;
        let on_ada = bob.client.on(ada.account);
        let mut requests = Vec::new();
        for _ in 0..3 {
            let own = mint(&on_ada, &["account_owner"]).await;
            let theirs = mint(&ada.client, &["read"]).await;
            let minted = json!({"name": "late", "scopes": ["read"]});
            requests.push((on_ada.clone(), Method::POST, KEYS.to_owned(), minted.clone()));
            requests.push((own.client(&app.base_url), Method::POST, KEYS.to_owned(), minted));
            requests.push((on_ada.clone(), Method::POST, format!("{}/rotate", own.path()), json!({})));
            requests.push((on_ada.clone(), Method::POST, format!("{}/rotate", theirs.path()), json!({})));
            requests.push((on_ada.clone(), Method::DELETE, theirs.path(), json!({})));
        }
        let end = if round % 2 == 0 {
            (ada.client.clone(), Method::DELETE, format!("{MEMBERS}/{membership}"), json!({}))
        } else {
            (bob.client.clone(), Method::DELETE, ME.to_owned(), json!({"confirm": "delete-account"}))
        };
        requests.insert(round * 2, end);
        let answers = at_once(requests.into_iter().map(|(client, method, path, body)| async move {
            client.send(client.request(method, &path).json(&body)).await
        }));
        for answer in answers.await {
            let status = answer.status.as_u16();
            assert!(matches!(status, 201 | 204 | 401 | 403 | 409), "{status} {}", answer.body);
        }
        assert_eq!(app.live_keys(ada.account, bob.account).await, 0);
        assert_eq!(ada.client.list(MEMBERS).await, <[Value; 0]>::default());
    }
    assert_eq!(app.audited(ada.account, "team.member_removed").await.len(), 8);
    app.stop().await;
}

/// Contract: accounts 9; teams 8. The keys on other accounts are revoked as in a removal, which is recorded in the owner's log.
#[tokio::test]
async fn deleted_account_leaves_every_team() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let eve = app.person(Tier::Enterprise).await;
    let on_ada = app.join(&ada, &bob, "admin").await;
    app.join(&bob, &eve, "admin").await;
    let token = app.invited(&bob, "grace@example.com", "member").await;
    let key = mint(&bob.client.on(ada.account), &["read"]).await;
    let eves = mint(&eve.client.on(bob.account), &["read"]).await;
    delete_me(&bob).await.expect(204);
    for key in [&key, &eves] {
        key.client(&app.base_url).get(TEAMS).await.problem(401, "unauthorized");
    }
    assert_eq!(ada.client.list(MEMBERS).await, <[Value; 0]>::default());
    assert_eq!(eve.client.list(OWNERS).await, <[Value; 0]>::default());
    eve.client.on(bob.account).get(KEYS).await.problem(403, "forbidden");
    app.signed_in(&app.sign_up("grace@example.com").await).accept(&token).await.invalid("token");
    assert_eq!(app.count("select count(*) from team_members").await, 0);
    let pending = "select count(*) from team_invites where accepted_at is null";
    assert_eq!(app.count(pending).await, 0);
    let log = app.audited(ada.account, "team.member_removed").await;
    let [removed] = &log[..] else { panic!("{log:?}") };
    let payload = json!({"revoked_api_key_ids": [key.id]});
    let member = Some(bob.account.as_uuid());
    assert_eq!(row(removed), ("customer", member, "team.member_removed", Some(on_ada.as_str()), payload));
    assert_eq!((&removed.ip_address, &removed.user_agent), (&None, &None));
    assert_eq!(revocations(&app, ada.account).await.len(), 1);

    for _ in 0..4 {
        let (one, two) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
        app.join(&one, &two, "admin").await;
        app.join(&two, &one, "admin").await;
        for (client, owner) in [(&one.client, &two), (&two.client, &one), (&one.client, &one), (&two.client, &two)] {
            mint(&client.on(owner.account), &["read"]).await;
        }
        let deletions = at_once([one, two].map(|person| async move { delete_me(&person).await })).await;
        assert!(deletions.iter().all(|answer| answer.status == 204), "{deletions:?}");
    }
    let live = "select count(*) from api_keys k join accounts a on a.id = k.account_id
                where a.status = 'deleted' and k.revoked_at is null";
    assert_eq!(app.count(live).await, 0);
    app.stop().await;
}
