//! Profiles and their sessions with the simulated driver (contract: profiles; sessions 4 to 6).

mod holding;

use std::collections::BTreeSet;

use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::people::Person;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, assert_timestamp, at_once, members, stable, unknown_id};

const PROFILES: &str = "/v1/profiles";
const LAUNCH: &str = "iphone-16-ios-18";

fn at(profile: &str, what: &str) -> String {
    format!("{PROFILES}/{profile}{what}")
}

fn id(answer: &Answer) -> String {
    answer.body["id"].as_str().unwrap_or_else(|| panic!("no id: {}", answer.body)).to_owned()
}

impl Client {
    async fn launch(&self, profile: &str) -> Answer {
        self.post(&at(profile, "/launch"), json!({})).await
    }

    async fn listed(&self, query: &str) -> Vec<String> {
        let page = self.get(&format!("{PROFILES}{query}")).await.expect(200).body;
        let data = page["data"].as_array().expect("data").iter();
        data.map(|profile| profile["id"].as_str().expect("an id").to_owned()).collect()
    }
}

impl App {
    /// Of the account's last audit row with this action. A customer caused it.
    async fn last_audited(&self, account: AccountId, action: &str, target: &str) -> Value {
        let row = self.audited(account, action).await.pop().unwrap_or_else(|| panic!("no row of {action}"));
        assert_eq!((row.actor_type.as_str(), row.target_resource_id.as_deref()), ("customer", Some(target)));
        row.payload
    }
}

/// Contract: profiles 1, 2, 6. The default archetype is that of the catalogue. The payload of `profile.created` has the name
/// and the archetype.
#[tokio::test]
async fn profile_has_the_members_of_the_contract() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let created = client.post(PROFILES, json!({"name": "  Zürich,\u{a0}first "})).await.expect(201);
    let profile = id(&created);
    assert_eq!(created.headers["location"], at(&profile, ""));
    insta::assert_json_snapshot!("profile", stable(&created.body));
    assert_eq!(created.body["account_id"], account.to_string());
    assert_eq!(client.get(&at(&profile, "")).await.expect(200).body, created.body);
    assert_eq!(client.get(PROFILES).await.expect(200).body["data"], json!([created.body]));
    let payload = app.last_audited(account, "profile.created", &profile).await;
    assert_eq!(payload, json!({"name": "Zürich,\u{a0}first", "archetype": LAUNCH}));

    let renamed = client.patch(&at(&profile, ""), json!({"name": "second"})).await.expect(200).body;
    assert_eq!((&renamed["name"], &renamed["id"]), (&json!("second"), &created.body["id"]));
    assert_ne!(renamed["updated_at"], created.body["updated_at"]);
    assert_eq!(client.get(&at(&profile, "")).await.expect(200).body, renamed);

    // Names need not be unique.
    let params = json!({"name": "second", "archetype": "iphone-16-pro-ios-18"});
    let second = client.post(PROFILES, params).await.expect(201).body;
    assert_eq!(second["archetype"], "iphone-16-pro-ios-18");
    for (body, field) in [
        (json!({}), "name"),
        (json!({"name": null}), "name"),
        (json!({"name": 1}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": " \u{3000} "}), "name"),
        (json!({"name": "ü".repeat(121)}), "name"),
        (json!({"name": "two\nlines"}), "name"),
        (json!({"name": "a\u{0}"}), "name"),
        (json!({"name": "x", "archetype": "nokia-3310"}), "archetype"),
        (json!({"name": "x", "archetype": ""}), "archetype"),
        (json!({"name": "x", "archetype": 16}), "archetype"),
    ] {
        client.post(PROFILES, body.clone()).await.invalid(field);
        if field == "name" {
            client.patch(&at(&profile, ""), body).await.invalid(field);
        }
    }
    client.post(PROFILES, json!({"name": "ü".repeat(120)})).await.expect(201);
    assert_eq!(app.count("select count(*) from profiles").await, 3);
    app.stop().await;
}

/// Contract: profiles 3, 6. Each step writes an audit row.
#[tokio::test]
async fn deleted_profile_stays_in_the_recycle_bin_until_purge() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (kept, profile) = (client.profile().await, client.profile().await);
    client.post(&at(&profile, "/restore"), json!({})).await.problem(409, "conflict");
    client.delete(&at(&profile, "/purge")).await.problem(409, "conflict");
    client.delete(&at(&profile, "")).await.expect(204);
    assert_eq!(app.last_audited(account, "profile.deleted", &profile).await["name"], "Shop");

    assert_eq!(
        (client.listed("").await, client.listed("?deleted=true").await),
        (vec![kept.clone()], vec![profile.clone()])
    );
    assert_eq!(client.listed("?deleted=false").await, std::slice::from_ref(&kept));
    client.get(&format!("{PROFILES}?deleted=perhaps")).await.invalid("deleted");
    let binned = client.get(&format!("{PROFILES}?deleted=true")).await.body["data"][0].clone();
    assert_timestamp(&binned["deleted_at"]);
    for (method, what) in [
        (Method::GET, ""),
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/clone"),
        (Method::POST, "/launch"),
        (Method::GET, "/export"),
        (Method::GET, "/snapshots"),
        (Method::POST, "/snapshots"),
    ] {
        let request = client.request(method, &at(&profile, what)).json(&json!({"name": "x"}));
        client.send(request).await.problem(404, "not-found");
    }
    client.post("/v1/sessions", json!({"profile_id": profile})).await.problem(404, "not-found");

    let restored = client.post(&at(&profile, "/restore"), json!({})).await.expect(200).body;
    assert_eq!(client.get(&at(&profile, "")).await.expect(200).body, restored);
    assert_eq!(restored["deleted_at"], Value::Null);
    assert_eq!(app.last_audited(account, "profile.restored", &profile).await, json!({"name": "Shop"}));
    assert!(client.listed("?deleted=true").await.is_empty());

    client.delete(&at(&profile, "")).await.expect(204);
    client.delete(&at(&profile, "/purge")).await.expect(204);
    app.last_audited(account, "profile.purged", &profile).await;
    client.delete(&at(&profile, "/purge")).await.problem(404, "not-found");
    client.post(&at(&profile, "/restore"), json!({})).await.problem(404, "not-found");
    assert!(client.listed("?deleted=true").await.is_empty());
    assert_eq!(client.listed("").await, [kept]);
    app.stop().await;
}

/// Contract: profiles 4; limits 3. Profiles in the recycle bin count.
#[tokio::test]
async fn profile_above_the_tier_limit_is_403() {
    let app = App::simulated().set("limits.profiles.api_starter", "3").start().await;
    let (account, client) = app.customer(Tier::ApiStarter).await;
    let client_of_all = client.clone();
    let racing = (0..16).map(|_| {
        let client = client_of_all.clone();
        async move { client.post(PROFILES, json!({"name": "raced"})).await }
    });
    let answers = at_once(racing).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((made.len(), refused.len()), (3, 13));
    for answer in refused {
        let refused = answer.problem(403, "feature-unavailable");
        assert_eq!((&refused.body["current_profiles"], &refused.body["limit"]), (&json!(3), &json!(3)));
        assert_eq!(refused.body["title"], "FeatureUnavailable");
    }

    let profile = id(&made[0]);
    let snapshot = id(&client.post(&at(&profile, "/snapshots"), json!({})).await.expect(201));
    let mut document = client.get(&at(&profile, "/export")).await.expect(200).body;
    let (clone, restore) = (at(&profile, "/clone"), format!("/v1/profile-snapshots/{snapshot}/restore"));
    let import = format!("{PROFILES}/import");
    for (another, body) in [(&clone, json!({})), (&restore, json!({})), (&import, document.clone())] {
        client.post(another, body).await.problem(403, "feature-unavailable");
    }
    // At the limit, requests with a missing, foreign or invalid resource still receive the usual errors.
    let foreign = app.client().await;
    let theirs = foreign.profile().await;
    let their_snapshot = id(&foreign.post(&at(&theirs, "/snapshots"), json!({})).await.expect(201));
    for missing in [theirs, unknown_id("prof")] {
        client.post(&at(&missing, "/clone"), json!({})).await.problem(404, "not-found");
    }
    for missing in [their_snapshot, unknown_id("psnap")] {
        let restore = format!("/v1/profile-snapshots/{missing}/restore");
        client.post(&restore, json!({})).await.problem(404, "not-found");
    }
    client.post(&clone, json!({"name": ""})).await.invalid("name");
    client.post(PROFILES, json!({"name": "x", "archetype": "nokia-3310"})).await.invalid("archetype");
    document["archetype"] = json!("nokia-3310");
    client.post(&import, document).await.invalid("archetype");
    client.post(&import, json!({})).await.invalid("format");
    client.delete(&at(&profile, "")).await.expect(204);
    client.post(PROFILES, json!({"name": "x"})).await.problem(403, "feature-unavailable");
    client.delete(&at(&profile, "/purge")).await.expect(204);
    client.profile().await;

    app.run(&["account", "set-tier", &account.to_string(), "solo_manual"]).await.code(0);
    assert_eq!(client.listed("").await.len(), 3);
    app.run(&["account", "set-tier", &account.to_string(), "enterprise"]).await.code(0);
    client.profile().await;
    app.stop().await;
}

/// Contract: profiles 5. Live or deleted, like an unknown profile and a malformed id.
#[tokio::test]
async fn profile_of_another_account_is_404() {
    let app = App::simulated().start().await;
    let (owner, stranger) = (app.client().await, app.client().await);
    let (theirs, binned) = (owner.profile().await, owner.profile().await);
    let snapshot = id(&owner.post(&at(&theirs, "/snapshots"), json!({})).await.expect(201));
    owner.delete(&at(&binned, "")).await.expect(204);
    let not_found_body = async |method: &Method, path: String| {
        let request = stranger.request(method.clone(), &path).json(&json!({"name": "x"}));
        let mut answer = stranger.send(request).await.problem(404, "not-found");
        for own in ["instance", "request_id"] {
            answer.body[own] = Value::Null;
        }
        answer.body
    };
    for (method, what) in [
        (Method::GET, ""),
        (Method::PATCH, ""),
        (Method::DELETE, ""),
        (Method::POST, "/clone"),
        (Method::POST, "/restore"),
        (Method::DELETE, "/purge"),
        (Method::POST, "/launch"),
        (Method::GET, "/export"),
        (Method::GET, "/snapshots"),
        (Method::POST, "/snapshots"),
    ] {
        let missing = not_found_body(&method, at(&unknown_id("prof"), what)).await;
        for profile in [&theirs, &binned, "prof_x", &theirs.replace("prof_", ""), &theirs.replace("prof_", "ses_")] {
            assert_eq!(not_found_body(&method, at(profile, what)).await, missing, "{method} {what}");
        }
    }
    for (method, what) in [(Method::DELETE, ""), (Method::POST, "/restore")] {
        let path = |snapshot: &str| format!("/v1/profile-snapshots/{snapshot}{what}");
        let missing = not_found_body(&method, path(&unknown_id("psnap"))).await;
        for snapshot in [&snapshot, "psnap_x", &theirs] {
            assert_eq!(not_found_body(&method, path(snapshot)).await, missing, "{method} {what}");
        }
    }
    for profile in [theirs.as_str(), &binned, "prof_x", ""] {
        stranger.post("/v1/sessions", json!({"profile_id": profile})).await.problem(404, "not-found");
    }
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    owner.get(&at(&theirs, "")).await.expect(200);
    app.stop().await;
}

/// Contract: sessions 5, 9. The metadata contains id and name beside the caller's members.
#[tokio::test]
async fn session_inherits_archetype_and_metadata_of_its_profile() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let params = json!({"name": "Shop", "archetype": "iphone-16-pro-ios-18"});
    let profile = id(&client.post(PROFILES, params).await.expect(201));
    let named = json!({"profile_id": profile, "profile_name": "Shop"});

    let created = client.post("/v1/sessions", json!({"profile_id": profile})).await.expect(201);
    assert_eq!((&created.body["archetype"], &created.body["metadata"]), (&json!("iphone-16-pro-ios-18"), &named));
    let used = client.get(&at(&profile, "")).await.expect(200).body;
    assert_timestamp(&used["last_used_at"]);
    assert_eq!(client.get(&format!("/v1/sessions/{}", id(&created))).await.expect(200).body, created.body);
    client.delete(&format!("/v1/sessions/{}", id(&created))).await.expect(204);

    let metadata = json!({"order": 17, "profile_name": "mine"});
    let body = json!({"label": "run", "metadata": metadata, "behavioral_profile": "casual", "archetype": "none"});
    let launched = client.post(&at(&profile, "/launch"), body).await.expect(201);
    assert_eq!(launched.headers["location"], format!("/v1/sessions/{}", id(&launched)));
    assert_eq!(launched.headers["x-service-unknown-fields"], "archetype", "launch accepts no archetype");
    let (archetype, label) = (&launched.body["archetype"], &launched.body["label"]);
    assert_eq!((archetype, label), (&json!("iphone-16-pro-ios-18"), &json!("run")));
    let merged = json!({"order": 17, "profile_id": profile, "profile_name": "Shop"});
    assert_eq!(launched.body["metadata"], merged);
    assert_ne!(client.get(&at(&profile, "")).await.body["last_used_at"], used["last_used_at"]);
    client.delete(&format!("/v1/sessions/{}", id(&launched))).await.expect(204);

    let other = json!({"profile_id": profile, "archetype": LAUNCH});
    let other = client.post("/v1/sessions", other).await.expect(201);
    assert_eq!(other.body["archetype"], LAUNCH);
    client.delete(&format!("/v1/sessions/{}", id(&other))).await.expect(204);

    // The catalogue of another version may lack the archetype of an existing profile.
    app.execute("update profiles set archetype = 'iphone-9' where id = $1", uuid_of(&profile)).await;
    client.post("/v1/sessions", json!({"archetype": "iphone-9"})).await.invalid("archetype");
    client.post(PROFILES, json!({"name": "x", "archetype": "iphone-9"})).await.invalid("archetype");
    let left = client.launch(&profile).await.expect(201);
    assert_eq!(left.body["archetype"], "iphone-9");
    client.navigate(&id(&left), "https://example.com/").await;
    client.delete(&format!("/v1/sessions/{}", id(&left))).await.expect(204);
    let copy = client.post(&at(&profile, "/clone"), json!({})).await.expect(201).body;
    assert_eq!(copy["archetype"], "iphone-9");

    for (body, field) in [
        (json!({"label": "x".repeat(121)}), "label"),
        (json!({"purpose": "test_domain_probe"}), "purpose"),
        (json!({"metadata": []}), "metadata"),
        (json!({"proxy": null}), "proxy"),
    ] {
        client.post(&at(&profile, "/launch"), body).await.invalid(field);
    }
    app.stop().await;
}

/// Contract: sessions 6; profiles 3, 10. The 409 contains the session's id. The profile cannot be deleted meanwhile.
#[tokio::test]
async fn second_live_session_of_a_profile_is_409() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let profile = client.profile().await;
    for round in 0..3 {
        let racing = (0..16).map(|nth| {
            let (client, profile) = (client.clone(), profile.clone());
            async move {
                match nth % 2 {
                    0 => client.launch(&profile).await,
                    _ => client.post("/v1/sessions", json!({"profile_id": profile})).await,
                }
            }
        });
        let (won, lost): (Vec<_>, Vec<_>) = at_once(racing).await.into_iter().partition(|answer| answer.status == 201);
        assert_eq!((won.len(), lost.len()), (1, 15), "round {round}");
        let session = id(&won[0]);
        for answer in lost {
            let refused = answer.problem(409, "profile-in-use");
            assert_eq!(refused.body["title"], "ProfileInUse");
            assert_eq!(refused.body["active_session_id"], session.as_str());
        }
        let refused = client.delete(&at(&profile, "")).await.problem(409, "profile-in-use");
        assert_eq!(refused.body["active_session_id"], session.as_str());
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    assert_eq!(app.count("select count(*) from sessions").await, 3, "a rejected create left a row");
    client.delete(&at(&profile, "")).await.expect(204);
    app.stop().await;
}

/// Contract: sessions 6. The end of that session would resolve both.
#[tokio::test]
async fn profile_in_use_has_precedence_over_concurrency_limit() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::ApiStarter, &["account_owner"]).await;
    let (one, other) = (client.profile().await, client.profile().await);
    let session = id(&client.launch(&one).await.expect(201));
    client.session().await;
    let refused = client.launch(&one).await.problem(409, "profile-in-use");
    assert_eq!(refused.body["active_session_id"], session.as_str());
    client.launch(&other).await.problem(429, "concurrency-limit");
    assert_eq!(client.get(&at(&other, "")).await.expect(200).body["last_used_at"], Value::Null);
    app.stop().await;
}

/// Contract: sessions 4. Whatever the body.
#[tokio::test]
async fn launch_is_400_when_customer_egress_is_required() {
    let app = App::simulated().set("sessions.require_customer_egress", "true").start().await;
    let client = app.client().await;
    let profile = client.profile().await;
    for body in [json!({}), json!({"label": 1}), json!({"proxy": null}), json!({"proxy_id": "prx_1"})] {
        for path in [at(&profile, "/launch"), at(&unknown_id("prof"), "/launch")] {
            let answer = client.post(&path, body.clone()).await.expect(400);
            assert_eq!(answer.headers["content-type"], "application/problem+json");
        }
    }
    client.post("/v1/sessions", json!({"profile_id": profile})).await.expect(400);
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    app.stop().await;
}

/// Contract: profiles 18; lists 1. They are hidden while the profile is in the recycle bin, and a purge deletes them.
#[tokio::test]
async fn snapshots_follow_their_profile() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let profile = client.profile().await;
    let snapshots = at(&profile, "/snapshots");
    let first = client.post(&snapshots, json!({"label": "before"})).await.expect(201);
    assert_eq!(members(&first.body), BTreeSet::from(["created_at", "id", "label", "profile_id", "size_bytes"]));
    assert!(id(&first).starts_with("psnap_"), "{}", first.body);
    assert_eq!((&first.body["profile_id"], &first.body["label"]), (&json!(profile), &json!("before")));
    assert_eq!(first.body["size_bytes"], 0);
    assert_timestamp(&first.body["created_at"]);
    let second = client.post(&snapshots, json!({})).await.expect(201);
    assert_eq!(second.body["label"], Value::Null);
    client.post(&snapshots, json!({"label": "x".repeat(121)})).await.invalid("label");
    let list = client.get(&snapshots).await.expect(200).body;
    assert_eq!(list, json!({"data": [second.body, first.body], "has_more": false, "next_cursor": null}));

    let restored = client.post(&format!("/v1/profile-snapshots/{}/restore", id(&first)), json!({})).await.expect(201);
    assert_ne!(id(&restored), profile);
    assert_eq!((&restored.body["name"], &restored.body["archetype"]), (&json!("Shop (restored)"), &json!(LAUNCH)));
    let payload = app.last_audited(account, "profile.created", &id(&restored)).await;
    let expected = json!({"name": "Shop (restored)", "archetype": LAUNCH, "restored_from_snapshot": id(&first)});
    assert_eq!(payload, expected);
    let named = format!("/v1/profile-snapshots/{}/restore", id(&first));
    assert_eq!(client.post(&named, json!({"name": "again"})).await.expect(201).body["name"], "again");
    client.post(&named, json!({"name": ""})).await.invalid("name");

    client.delete(&at(&profile, "")).await.expect(204);
    client.get(&snapshots).await.problem(404, "not-found");
    client.post(&named, json!({})).await.problem(404, "not-found");
    client.delete(&format!("/v1/profile-snapshots/{}", id(&first))).await.problem(404, "not-found");
    client.post(&at(&profile, "/restore"), json!({})).await.expect(200);
    client.delete(&format!("/v1/profile-snapshots/{}", id(&first))).await.expect(204);
    client.delete(&format!("/v1/profile-snapshots/{}", id(&first))).await.problem(404, "not-found");
    assert_eq!(client.get(&snapshots).await.expect(200).body["data"], json!([second.body]));
    client.delete(&at(&profile, "")).await.expect(204);
    client.delete(&at(&profile, "/purge")).await.expect(204);
    assert_eq!(app.count("select count(*) from profile_snapshots").await, 0);
    app.stop().await;
}

/// Contract: profiles 6. The audit row of a clone names its source as `profile_<uuid>`.
#[tokio::test]
async fn clone_is_independent_of_its_source() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let profile = client.profile().await;
    let clone = client.post(&at(&profile, "/clone"), json!({})).await.expect(201);
    assert_eq!(clone.headers["location"], at(&id(&clone), ""));
    assert_eq!((&clone.body["name"], &clone.body["last_used_at"]), (&json!("Shop (copy)"), &Value::Null));
    let payload = app.last_audited(account, "profile.created", &id(&clone)).await;
    let from = format!("profile_{}", uuid_of(&profile));
    assert_eq!(payload, json!({"name": "Shop (copy)", "archetype": LAUNCH, "cloned_from": from}));
    let named = client.post(&at(&profile, "/clone"), json!({"name": "mine"})).await.expect(201);
    assert_eq!(named.body["name"], "mine");
    client.post(&at(&profile, "/clone"), json!({"name": "\t"})).await.invalid("name");
    // The clone and its source can be in use at the same time, and a profile in use can be cloned.
    client.launch(&profile).await.expect(201);
    client.launch(&id(&clone)).await.expect(201);
    client.post(&at(&profile, "/clone"), json!({})).await.expect(201);
    app.stop().await;
}

/// Contract: profiles 7; authorization 10. A member can read and an admin can change. Profiles that an admin creates belong to
/// the owner. An export requires an admin.
#[tokio::test]
async fn team_roles_limit_access_to_the_owners_profiles() {
    let app = App::simulated().start().await;
    let (owner, client) = app.customer(Tier::ApiStarter).await;
    let profile = client.profile().await;
    let on_behalf = async |person: &Person, method: Method, path: &str| {
        let request = person.client.request(method, path).header("x-service-account", owner.to_string());
        person.client.send(request.json(&json!({"name": "theirs"}))).await
    };
    let (member, admin) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    app.join_team(owner, member.account, "member").await;
    app.join_team(owner, admin.account, "admin").await;
    on_behalf(&member, Method::GET, &at(&profile, "")).await.expect(200);
    for path in [PROFILES.to_owned(), at(&profile, "/clone"), at(&profile, "/launch")] {
        on_behalf(&member, Method::POST, &path).await.problem(403, "forbidden");
    }
    on_behalf(&member, Method::GET, &at(&profile, "/export")).await.problem(403, "forbidden");
    let made = on_behalf(&admin, Method::POST, PROFILES).await.expect(201);
    assert_eq!(made.body["account_id"], owner.to_string());
    let row = app.audited(owner, "profile.created").await.pop().expect("a row");
    assert_eq!((row.actor_account_id, row.ip_address), (Some(admin.account.as_uuid()), None));
    let session = on_behalf(&admin, Method::POST, &at(&profile, "/launch")).await.expect(201);
    assert_eq!(session.body["account_id"], owner.to_string());
    app.stop().await;
}

/// Contract: retention 2, 3; command-line 9. No audit row is written.
#[tokio::test]
async fn retention_purges_profiles_deleted_long_ago() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let old = "update profiles set deleted_at = now() - interval '30 days 1 second' where id = $1";
    let (live, recent, due) = (client.profile().await, client.profile().await, client.profile().await);
    for profile in [&live, &recent, &due] {
        client.post(&at(profile, "/snapshots"), json!({})).await.expect(201);
    }
    client.post(&at(&due, "/snapshots"), json!({})).await.expect(201);
    client.delete(&at(&recent, "")).await.expect(204);
    client.delete(&at(&due, "")).await.expect(204);
    app.execute("update profiles set deleted_at = now() - interval '29 days' where id = $1", uuid_of(&recent)).await;
    app.execute(old, uuid_of(&due)).await;

    let gone = app.person(Tier::Enterprise).await;
    let (theirs, kept) = (gone.client.profile().await, gone.client.profile().await);
    gone.client
        .send(gone.client.request(Method::DELETE, "/v1/account/me").json(&json!({"confirm": "delete-account"})))
        .await
        .expect(204);
    assert_eq!(app.count("select count(*) from profiles where deleted_at is null").await, 1);
    app.execute("update profiles set deleted_at = now() - interval '25 hours' where id = $1", uuid_of(&theirs)).await;

    let sweep = async || app.run(&["sweep", "retention", "--json"]).await.code(0).json();
    let swept = sweep().await;
    let left: Vec<String> = sqlx::query_scalar("select 'prof_' || id from profiles order by id")
        .fetch_all(&app.database.pool)
        .await
        .expect("the profiles");
    assert_eq!(left, [live, recent, kept], "{swept}");
    assert_eq!(app.count("select count(*) from profile_snapshots").await, 2);
    let swept = sweep().await;
    assert_eq!(members(&swept), BTreeSet::from(["profiles", "snapshots", "stores", "rows", "failed"]));
    for what in ["profiles", "snapshots", "stores", "failed"] {
        assert_eq!(swept[what], 0, "{swept}");
    }
    assert!(app.audited(account, "profile.purged").await.is_empty());

    let scraper = Client::new(&app.base_url, Some("scrape"));
    let text = scraper.request(Method::GET, "/metrics").send().await.expect("an answer").text().await.expect("text");
    for arm in ["profiles", "snapshots"] {
        for outcome in ["purged", "failed", "skipped"] {
            let labels =
                [format!("arm=\"{arm}\",outcome=\"{outcome}\""), format!("outcome=\"{outcome}\",arm=\"{arm}\"")];
            let named = |line: &str| {
                line.starts_with("service_retention_purge_total{") && labels.iter().any(|l| line.contains(l))
            };
            assert!(text.lines().any(named), "no {arm} {outcome}:\n{text}");
        }
    }
    app.stop().await;
}

/// Contract: profiles 26. It works again when the key is back.
#[tokio::test]
async fn profile_with_unavailable_key_is_503() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let profile = client.profile().await;
    let change_key =
        "update profiles set sealed_key = set_byte(sealed_key, 0, 255 - get_byte(sealed_key, 0)) where id = $1";
    app.execute(change_key, uuid_of(&profile)).await;
    let refused = client.get(&at(&profile, "/export")).await.problem(503, "feature-unavailable");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("lacks the key")), "{}", refused.body);
    assert!(!refused.headers.contains_key("retry-after"), "a retry-after header, although a retry does not help");
    app.execute(change_key, uuid_of(&profile)).await;
    client.get(&at(&profile, "/export")).await.expect(200);
    app.stop().await;
}
