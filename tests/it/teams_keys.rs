//! Contract: teams 9 to 11.

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::api_keys::{KEYS, Minted, mint};
use crate::support::people::Person;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client};
use crate::teams::delete_me;

const AUDIT_LOG: &str = "/v1/account/audit-log";

struct Team {
    app: App,
    ada: Person,
    bob: Person,
    membership: String,
}

impl Team {
    async fn start() -> Self {
        let app = App::simulated().start().await;
        let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
        let membership = app.join(&ada, &bob, "admin").await;
        Self { app, ada, bob, membership }
    }

    async fn key(&self, scopes: &[&str]) -> (Minted, Client) {
        let key = mint(&self.bob.client.on(self.ada.account), scopes).await;
        let client = key.client(&self.app.base_url);
        (key, client)
    }

    async fn rotate(&self, by: &Client, key: &Minted) -> (Minted, Client) {
        let successor = Minted::of(&by.post(&format!("{}/rotate", key.path()), json!({})).await);
        let client = successor.client(&self.app.base_url);
        (successor, client)
    }

    async fn set_role(&self, role: &str) {
        let set = sqlx::query("update team_members set role = $1 where id = $2");
        set.bind(role).bind(uuid_of(&self.membership)).execute(&self.app.database.pool).await.expect("a role");
    }
}

async fn assert_no_owner(client: &Client, owner: &Person) {
    let me = "/v1/account/me";
    let answers = [
        client.patch(me, json!({"name": "Mine"})).await,
        client.get("/v1/account/web-sessions").await,
        client.get("/v1/account/mfa").await,
        client.get("/v1/team/members").await,
        client.get("/v1/team/owners").await,
        client.get("/v1/teams").await,
        client.get("/v1/team/invites").await,
        client.post("/v1/team/invites", json!({"email": "eve@example.com", "role": "admin"})).await,
        client.get("/v1/oauth/clients").await,
        client.post("/v1/oauth/clients", json!({"name": "nightly", "scopes": ["read"]})).await,
    ];
    for answer in answers {
        answer.problem(403, "forbidden");
    }
    assert_eq!(owner.client.get(me).await.expect(200).body["name"], json!("Ada"));
}

/// Contract: teams 9.
#[tokio::test]
async fn members_key_has_its_creators_rights() {
    let team = Team::start().await;
    let Team { app, ada, bob, .. } = &team;
    let (minted, key) = team.key(&["account_owner"]).await;
    let made = key.post("/v1/sessions", json!({})).await.expect(201).body;
    assert_eq!((&made["account_id"], &made["api_key_id"]), (&json!(ada.account), &json!(minted.id)));
    let session = format!("/v1/sessions/{}", made["id"].as_str().expect("an id"));
    for path in ["/v1/sessions", &session, &format!("{session}/state"), KEYS, "/v1/webhooks", "/v1/usage"] {
        key.get(path).await.expect(200);
    }
    assert_no_owner(&key, ada).await;
    let zoe = app.person(Tier::Enterprise).await;
    app.join(&zoe, ada, "member").await;
    assert_eq!(ada.client.get("/v1/account/me").await.expect(200).body["teams"][0]["owner_email"], json!(zoe.email));
    let me = key.get("/v1/account/me").await.expect(200).body;
    assert_eq!((&me["id"], &me["teams"]), (&json!(ada.account), &json!([])));
    let (_, narrow) = team.key(&["write:sessions"]).await;
    narrow.get("/v1/account/me").await.problem(403, "forbidden");

    let eve = app.person(Tier::Enterprise).await;
    app.join(&eve, ada, "admin").await;
    app.join(&eve, bob, "admin").await;
    for other in [eve.account, bob.account] {
        key.on(other).get("/v1/sessions").await.problem(403, "forbidden");
    }
    key.on("x").get("/v1/sessions").await.invalid("X-Service-Account");
    key.on(ada.account).get("/v1/sessions").await.expect(200);
    let own = mint(&ada.client, &["account_owner"]).await.client(&app.base_url);
    own.get("/v1/account/me").await.expect(200);
    own.on(eve.account).get("/v1/sessions").await.expect(200);
    team.app.stop().await;
}

/// Contract: teams 9; audit-log 4, 5. It reads the owner's log without addresses and user agents.
#[tokio::test]
async fn members_key_is_logged_as_its_creator() {
    let team = Team::start().await;
    let Team { app, ada, bob, .. } = &team;
    app.log_in(&ada.email, crate::support::people::PASSWORD).await.expect(200);
    let (minted, key) = team.key(&["account_owner"]).await;
    let session = key.session().await;
    key.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let second = mint(&key, &["read:audit"]).await;

    let login = |page: Answer| {
        let rows = page.expect(200).body["data"].as_array().cloned().unwrap_or_default();
        rows.into_iter().find(|row| row["action"] == "account.login").expect("a login")["payload"].clone()
    };
    assert!(login(ada.client.get(AUDIT_LOG).await)["issued_from_ip"].is_string());
    let export = format!("{AUDIT_LOG}/export?format=json");
    for reader in [&key, &second.client(&app.base_url)] {
        for path in [AUDIT_LOG, &export] {
            let payload = login(reader.get(path).await);
            assert_eq!(payload["method"], "password");
            assert!(payload.get("issued_from_ip").is_none() && payload.get("user_agent").is_none(), "{payload}");
        }
    }

    let log = app.audit(ada.account).await;
    let by_key: Vec<_> = log.iter().filter(|row| row.actor_key_id == Some(uuid_of(&minted.id))).collect();
    let actions: Vec<_> = by_key.iter().map(|row| row.action.as_str()).collect();
    assert_eq!(actions, ["session.created", "session.destroyed", "api_key.minted"]);
    for row in by_key {
        assert_eq!(row.actor_account_id, Some(bob.account.as_uuid()), "{row:?}");
        assert_eq!((&row.ip_address, &row.user_agent), (&None, &None), "{row:?}");
    }
    team.app.stop().await;
}

/// On the next request, after a changed role, a suspension or the end of the membership.
#[tokio::test]
async fn members_key_follows_its_creators_role() {
    let team = Team::start().await;
    let Team { app, ada, bob, .. } = &team;
    let (_, key) = team.key(&["account_owner"]).await;
    key.session().await;
    team.set_role("member").await;
    key.get("/v1/sessions").await.expect(200);
    key.get(AUDIT_LOG).await.expect(200);
    key.post("/v1/sessions", json!({})).await.problem(403, "forbidden");
    key.post(KEYS, json!({"name": "CI", "scopes": ["read"]})).await.problem(403, "forbidden");
    team.set_role("admin").await;
    key.session().await;

    for suspended in [bob, ada] {
        app.suspend(suspended).await;
        assert_eq!(key.get("/v1/sessions").await.problem(403, "forbidden").body["title"], "AccountSuspended");
        app.reactivate(suspended).await;
        key.get("/v1/sessions").await.expect(200);
    }
    // Keys also stop working if the membership ends other than by a removal.
    app.execute("delete from team_members where id = $1", uuid_of(&team.membership)).await;
    key.get("/v1/sessions").await.problem(401, "unauthorized");
    team.app.stop().await;
}

/// Contract: teams 8, 11.
#[tokio::test]
async fn members_keys_end_with_the_membership() {
    for by_deletion in [false, true] {
        let team = Team::start().await;
        let Team { app, ada, bob, membership } = &team;
        let (first, key) = team.key(&["account_owner"]).await;
        let second = mint(&key, &["account_owner"]).await;
        let (_, rotated_by_key) = team.rotate(&key, &second).await;
        let (_, rotated_by_owner) = team.rotate(&ada.client, &first).await;
        let owners = [mint(&ada.client, &["account_owner"]).await, mint(&ada.client, &["account_owner"]).await];
        let (_, taken_over) = team.rotate(&bob.client.on(ada.account), &owners[0]).await;
        let (_, kept) = team.rotate(&ada.client, &owners[1]).await;
        let members = [key, second.client(&app.base_url), rotated_by_key, rotated_by_owner, taken_over];
        for key in &members {
            key.get("/v1/sessions").await.expect(200);
            assert_no_owner(key, ada).await;
        }
        kept.get("/v1/account/me").await.expect(200);

        if by_deletion {
            delete_me(bob).await.expect(204);
        } else {
            ada.client.remove(membership).await.expect(204);
        }
        for key in &members {
            key.get("/v1/sessions").await.problem(401, "unauthorized");
        }
        kept.get("/v1/account/me").await.expect(200);
        if !by_deletion {
            app.join(ada, bob, "admin").await;
            for key in &members {
                key.get("/v1/sessions").await.problem(401, "unauthorized");
            }
        }
        team.app.stop().await;
    }
}

#[tokio::test]
async fn members_key_cannot_exceed_its_own_rights() {
    let team = Team::start().await;
    let Team { app, ada, .. } = &team;
    let (minted, key) = team.key(&["read"]).await;
    key.post(KEYS, json!({"name": "CI", "scopes": ["read"]})).await.problem(403, "forbidden");
    let rotate = key.request(Method::POST, &format!("{}/rotate", minted.path())).json(&json!({}));
    key.send(rotate).await.problem(403, "forbidden");
    key.get(KEYS).await.expect(200);
    app.run(&["account", "set-tier", &ada.account.to_string(), "free"]).await.code(0);
    let refused: Value = key.get(KEYS).await.problem(403, "forbidden").body;
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("apiAccess")), "{refused}");
    team.app.stop().await;
}
