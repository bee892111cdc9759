//! Contract: authorization 9 to 13.

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use super::{INVITES, ME, MEMBERS, OWNERS, PREFERENCES, TEAMS};
use crate::api_keys::{KEYS, Minted, mint};
use crate::support::{Answer, App, Client, unknown_id};

/// Contract: authorization 9, 11, 12.
#[tokio::test]
async fn account_header_applies_on_honoring_routes_only() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let eve = app.person(Tier::Enterprise).await;
    app.join(&ada, &bob, "admin").await;
    let own = mint(&bob.client, &["account_owner"]).await;
    for client in [&bob.client, &own.client(&app.base_url)] {
        for path in ["/v1/sessions", KEYS, PREFERENCES] {
            for malformed in ["", "x", &ada.account.as_uuid().to_string(), &unknown_id("ses"), "acc_x"] {
                client.on(malformed).get(path).await.invalid("X-Service-Account");
            }
            for second in [ada.account, bob.account] {
                let named = [ada.account, second].map(|account| account.to_string());
                let request = client.request(Method::GET, path);
                let twice = named.iter().fold(request, |request, account| request.header("x-service-account", account));
                client.send(twice).await.invalid("X-Service-Account");
            }
            let foreign = client.on(eve.account).get(path).await.problem(403, "forbidden").body;
            let unknown = client.on(unknown_id("acc")).get(path).await.problem(403, "forbidden").body;
            assert_eq!((&foreign["title"], &foreign["detail"]), (&unknown["title"], &unknown["detail"]));
            let entries = async |client: &Client| {
                let list = client.get(path).await.expect(200).body;
                list["data"].as_array().expect("a list").iter().map(|entry| entry["id"].clone()).collect::<Vec<_>>()
            };
            assert_eq!(entries(&client.on(bob.account)).await, entries(client).await);
            client.on(ada.account).get(path).await.expect(200);
        }
        for path in [INVITES, MEMBERS, OWNERS, TEAMS, ME, "/v1/account/web-sessions", "/v1/account/mfa"] {
            let absent = client.get(path).await.body;
            for ignored in ["x".to_owned(), ada.account.to_string(), eve.account.to_string()] {
                let answer = client.on(&ignored).get(path).await;
                if answer.status == 200 && path != "/v1/account/web-sessions" {
                    assert_eq!(answer.body, absent, "{path} on {ignored}");
                }
                assert_ne!(answer.status, 400, "{path} on {ignored}");
            }
        }
    }
    let renamed = bob.client.list(TEAMS).await.remove(0);
    let id = renamed["id"].as_str().expect("an id");
    bob.client.on(ada.account).rename_team(id, json!({"name": "Mine"})).await.expect(200);
    app.stop().await;
}

/// Contract: authorization 9, 10, 13. Changes and the session state require `admin`. The scopes are those of the caller's own
/// credential.
#[tokio::test]
async fn member_may_read_and_admin_may_change() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let (bob, eve) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    app.join(&ada, &bob, "member").await;
    app.join(&ada, &eve, "admin").await;
    let session = ada.client.session().await;
    let at = format!("/v1/sessions/{session}");
    let owners = mint(&ada.client, &["read"]).await;

    let member = bob.client.on(ada.account);
    for path in ["/v1/sessions", &at, KEYS, &owners.path(), PREFERENCES] {
        member.get(path).await.expect(200);
    }
    assert_eq!(member.get("/v1/sessions").await.body["data"][0]["id"], session);
    let refused = [
        member.post("/v1/sessions", json!({})).await,
        member.operate(&session, "navigate", json!({"url": "https://example.com/"})).await,
        member.get(&format!("{at}/state")).await,
        member.delete(&at).await,
        member.mint(&["read"]).await,
        member.post(&format!("{}/rotate", owners.path()), json!({})).await,
        member.delete(&owners.path()).await,
        member.opt_out().await,
    ];
    for answer in refused {
        answer.problem(403, "forbidden");
    }
    assert_eq!(ada.client.status(&session).await, "ready");

    let admin = eve.client.on(ada.account);
    admin.navigate(&session, "https://example.com/").await;
    admin.get(&format!("{at}/state")).await.expect(200);
    admin.opt_out().await.expect(200);
    let preference =
        |list: &Answer| {
            list.body["data"].as_array().expect("a list").iter().find_map(|preference| {
                (preference["event_type"] == "tier-changed").then(|| preference["opted_in"].clone())
            })
        };
    assert_eq!(preference(&ada.client.get(PREFERENCES).await), Some(json!(false)), "the owner's preference changed");
    assert_eq!(
        preference(&eve.client.get(PREFERENCES).await),
        Some(json!(true)),
        "the caller's preference did not change"
    );
    let theirs = admin.session().await;
    let made = ada.client.get(&format!("/v1/sessions/{theirs}")).await.expect(200).body;
    assert_eq!((&made["account_id"], &made["api_key_id"]), (&json!(ada.account), &Value::Null));
    eve.client.get(&format!("/v1/sessions/{theirs}")).await.problem(404, "not-found");
    let minted = mint(&admin, &["read"]).await;
    admin.post(&format!("{}/rotate", minted.path()), json!({})).await.expect(201);
    admin.delete(&minted.path()).await.expect(204);
    admin.delete(&at).await.expect(204);

    let on_ada = async |scopes: &[&str]| app.client_of(eve.account, scopes).await.on(ada.account);
    let at = format!("/v1/sessions/{theirs}");
    let (reads, writes) = (on_ada(&["read"]).await, on_ada(&["write:sessions"]).await);
    reads.get(&at).await.expect(200);
    reads.get(&format!("{at}/state")).await.problem(403, "forbidden");
    reads.delete(&at).await.problem(403, "forbidden");
    writes.get(&at).await.problem(403, "forbidden");
    let both = on_ada(&["read:sessions", "write:sessions"]).await;
    both.get(&format!("{at}/state")).await.expect(200);
    writes.mint(&["read"]).await.problem(403, "forbidden");
    on_ada(&["write"]).await.delete(&at).await.expect(204);
    let all = on_ada(&["account_owner"]).await;
    let keyed = ada.client.get(&format!("/v1/sessions/{}", all.session().await)).await.expect(200).body;
    assert!(keyed["api_key_id"].is_string());

    let log = app.audit(ada.account).await;
    let by = |account: AccountId| log.iter().filter(move |row| row.actor_account_id == Some(account.as_uuid()));
    assert_eq!(by(bob.account).map(|row| row.action.as_str()).collect::<Vec<_>>(), ["team.invite_accepted"]);
    let actions: Vec<_> = by(eve.account).map(|row| row.action.as_str()).collect();
    let expected = [
        "team.invite_accepted",
        "account.email_preferences_changed",
        "session.created",
        "api_key.minted",
        "api_key.rotated",
        "api_key.revoked",
        "session.destroyed",
        "session.destroyed",
        "session.created",
    ];
    assert_eq!(actions, expected);
    for row in by(eve.account) {
        assert_eq!((row.actor_type.as_str(), &row.ip_address, &row.user_agent), ("customer", &None, &None), "{row:?}");
    }
    let keys: Vec<_> = by(eve.account).map(|row| row.actor_key_id.is_some()).collect();
    assert_eq!(keys, [false, false, false, false, false, false, false, true, true]);
    assert!(by(ada.account).all(|row| row.ip_address.is_some()), "the owner's own rows have an address");
    let own = app.audit(eve.account).await;
    assert!(
        own.iter().all(|row| row.actor_type == "system"),
        "actions on another account are only in that account's log"
    );
    app.stop().await;
}

/// Contract: authorization 13. A session uses the limit of the owner, not of the member.
#[tokio::test]
async fn member_of_two_teams_acts_on_each_separately() {
    let app = App::simulated().start().await;
    let (ada, eve) = (app.person(Tier::SoloManual).await, app.person(Tier::Enterprise).await);
    let bob = app.person(Tier::Free).await;
    app.join(&ada, &bob, "admin").await;
    app.join(&eve, &bob, "member").await;
    let owners: Vec<_> =
        bob.client.list(OWNERS).await.into_iter().map(|owner| owner["owner_account_id"].clone()).collect();
    assert_eq!(owners, [json!(eve.account), json!(ada.account)], "newest first");
    let (on_ada, on_eve) = (bob.client.on(ada.account), bob.client.on(eve.account));
    let adas = on_ada.session().await;
    let eves = eve.client.session().await;
    let full = on_ada.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!((&full.body["current_sessions"], &full.body["limit"]), (&json!(1), &json!(1)));
    ada.client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    on_eve.post("/v1/sessions", json!({})).await.problem(403, "forbidden");
    bob.client.session().await;
    for (client, seen, hidden) in [(&on_ada, &adas, &eves), (&on_eve, &eves, &adas)] {
        let list = client.get("/v1/sessions").await.expect(200).body;
        assert_eq!(list["data"].as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list["data"][0]["id"], **seen);
        client.get(&format!("/v1/sessions/{hidden}")).await.problem(404, "not-found");
    }
    app.stop().await;
}

/// Contract: accounts 6; authorization 13.
#[tokio::test]
async fn suspension_blocks_team_access() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    app.join(&ada, &bob, "admin").await;
    let on_ada = bob.client.on(ada.account);
    for suspended in [&ada, &bob] {
        app.suspend(suspended).await;
        for answer in
            [on_ada.get(KEYS).await, on_ada.mint(&["read"]).await, on_ada.post("/v1/sessions", json!({})).await]
        {
            assert_eq!(answer.problem(403, "forbidden").body["title"], "AccountSuspended");
        }
        app.reactivate(suspended).await;
        on_ada.get(KEYS).await.expect(200);
    }
    app.stop().await;
}

/// Contract: teams 13. Keys that the member created lose their rights at their next use.
#[tokio::test]
async fn demoted_members_key_cannot_write() {
    let app = App::simulated().start().await;
    let (owner, member) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let membership = app.join(&owner, &member, "admin").await;
    let key = Minted::of(&member.client.on(owner.account).mint(&["read", "write"]).await).client(&app.base_url);
    let session = key.session().await;
    let path = format!("{MEMBERS}/{membership}");
    let changed = owner.client.patch(&path, json!({"role": "member"})).await.expect(200);
    assert_eq!((&changed.body["id"], &changed.body["role"]), (&json!(membership), &json!("member")));
    key.delete(&format!("/v1/sessions/{session}")).await.problem(403, "forbidden");
    key.get(&format!("/v1/sessions/{session}")).await.expect(200);
    owner.client.patch(&path, json!({"role": "member"})).await.expect(200);
    let rows = app.audited(owner.account, "team.member_role_changed").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].payload, json!({"previous_role": "admin", "role": "member"}));
    owner.client.patch(&path, json!({"role": "owner"})).await.invalid("role");
    member.client.patch(&path, json!({"role": "admin"})).await.problem(404, "not-found");
    app.stop().await;
}
