//! Several people on one account (contract: teams; authorization 9 to 13). Which credential opens which route is in
//! [`crate::authentication`].

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::emails::Template;
use kitfleet_domain::ids::AccountId;
use kitfleet_domain::teams::invites;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api_keys::{KEYS, Minted, mint, revocations};
use crate::support::people::Person;
use crate::support::records::{AuditRow, uuid_of};
use crate::support::{
    Answer, App, Client, Role, assert_timestamp, at_once, eventually, members, plain_http, unknown_id,
};

const INVITES: &str = "/v1/team/invites";
const ACCEPT: &str = "/v1/team/invites/accept";
const MEMBERS: &str = "/v1/team/members";
const OWNERS: &str = "/v1/team/owners";
const TEAMS: &str = "/v1/teams";
const ME: &str = "/v1/account/me";
const PREFERENCES: &str = "/v1/account/email-preferences";

const INVITE: [&str; 8] = [
    "id",
    "owner_account_id",
    "invitee_email",
    "role",
    "expires_at",
    "invited_by_account_id",
    "accepted_at",
    "created_at",
];
const MEMBERSHIP: [&str; 8] = [
    "id",
    "owner_account_id",
    "member_account_id",
    "member_email",
    "role",
    "invited_at",
    "accepted_at",
    "invited_by_account_id",
];

impl Client {
    /// The same, with `X-Service-Account`.
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
        self.post(ACCEPT, json!({"token": token})).await
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

    /// The entries of a list.
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
    /// Invites an address. Answers the token of the mail's link.
    async fn invited(&self, owner: &Person, email: &str, role: &str) -> String {
        let count = self.mails_to(email, Template::TeamInvite).len();
        owner.client.invite(email, role).await.expect(202);
        self.mail_number(count + 1, email, Template::TeamInvite).await.token
    }

    /// Puts somebody on a team. Answers the membership's id.
    pub async fn join(&self, owner: &Person, member: &Person, role: &str) -> String {
        let token = self.invited(owner, &member.email, role).await;
        let accepted = member.client.accept(&token).await.expect(200).body;
        accepted["membership"]["id"].as_str().expect("an id").to_owned()
    }

    /// The keys that somebody made on an account and that still work.
    async fn live_keys(&self, owner: AccountId, maker: AccountId) -> i64 {
        let live = "select count(*) from api_keys
                    where account_id = $1 and created_by_account_id = $2 and revoked_at is null";
        let live = sqlx::query_scalar(live).bind(owner.as_uuid()).bind(maker.as_uuid());
        live.fetch_one(&self.database.pool).await.expect("a count")
    }

    /// Waits until so many statements wait for each other's locks.
    async fn queued(&self, statements: i64) {
        let query = "select count(*) from pg_stat_activity
                     where datname = current_database() and wait_event_type = 'Lock'";
        eventually(Duration::from_secs(10), "statements wait", async || {
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

/// A row of the actions of teams, without what varies.
fn row(row: &AuditRow) -> (&str, Option<Uuid>, &str, Option<&str>, Value) {
    let AuditRow { actor_type, actor_account_id, action, target_resource_id, payload, .. } = row;
    (actor_type, *actor_account_id, action, target_resource_id.as_deref(), payload.clone())
}

pub async fn delete_me(person: &Person) -> Answer {
    let body = json!({"confirm": "delete-account"});
    person.client.send(person.client.request(Method::DELETE, ME).json(&body)).await
}

/// Contract: teams 1, 2. A team exists for every account.
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

/// Contract: teams 2; audit-log 16. An unknown id and another owner's team are the same 404.
#[tokio::test]
async fn a_team_is_renamed() {
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
    assert_eq!(details.len(), 1, "they are told apart: {details:?}");
    assert_eq!(bob.client.list(TEAMS).await, [theirs]);

    let log = app.audited(ada.account, "team.updated").await;
    let names: Vec<_> = log.iter().map(|row| row.payload.clone()).collect();
    let expected = [("Ada", "Engine room"), ("Engine room", "x"), ("x", &longest)];
    assert_eq!(names, expected.map(|(previous, name)| json!({"previous_name": previous, "name": name})));
    assert!(log.iter().all(|row| row.target_resource_id.as_deref() == Some(id)));
    assert_eq!(log[0].ip_address.as_deref(), Some("127.0.0.1"), "a row of one's own says from where");
    app.stop().await;
}

/// Contract: teams 3 to 7; accounts 3; audit-log 16. The invited need not have an account; their spelling of their address does
/// not matter.
#[tokio::test]
async fn somebody_is_invited_and_joins() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let invited = ada.client.invite(" Grace@Example.com ", "admin").await.expect(202);
    assert_eq!(members(&invited.body), BTreeSet::from(["message"]));
    assert!(invited.body["message"].is_string());

    let pending = ada.client.list(INVITES).await;
    let [invite] = &pending[..] else { panic!("{pending:?}") };
    assert_eq!(members(invite), BTreeSet::from(INVITE));
    let account = ada.account.to_string();
    for member in ["owner_account_id", "invited_by_account_id"] {
        assert_eq!(invite[member], account, "{member}");
    }
    assert_eq!((&invite["invitee_email"], &invite["role"]), (&json!("Grace@example.com"), &json!("admin")));
    assert_eq!(invite["accepted_at"], Value::Null);
    let invite_id = invite["id"].as_str().expect("an id");
    assert!(invite_id.starts_with("inv_") && uuid_of(invite_id).get_version_num() == 7, "{invite_id}");
    assert_timestamp(&invite["created_at"]);
    assert_timestamp(&invite["expires_at"]);
    let week = "select count(*) from team_invites where expires_at = created_at + interval '7 days'";
    assert_eq!(app.count(week).await, 1);

    let mail = app.mail_to("Grace@example.com", Template::TeamInvite).await;
    assert_eq!(mail.link(), format!("{}/team/accept?token={}", app.base_url, mail.token));
    assert_eq!(mail.token.len(), 43, "32 bytes in base64");
    for part in [&mail.text, &mail.html] {
        assert!(part.contains("7 days") && part.contains("ignore this mail"), "{part}");
        assert!(!part.contains(&ada.email) && !part.contains("opt out"), "{part}");
    }
    assert_eq!(app.tables_with(&mail.token).await, <[String; 0]>::default(), "a token is stored");
    assert!(!app.log(0).contains(&mail.token), "a token is logged");

    let grace = app.signed_in(&app.sign_up("grace@example.com").await);
    let me = grace.get(ME).await.expect(200).body;
    assert_eq!(grace.list(INVITES).await, <[Value; 0]>::default(), "invites are their owner's to see");
    let accepted = grace.accept(&mail.token).await.expect(200).body;
    assert_eq!(members(&accepted), BTreeSet::from(["membership"]));
    let membership = &accepted["membership"];
    assert_eq!(members(membership), BTreeSet::from(MEMBERSHIP));
    let id = membership["id"].as_str().expect("an id");
    assert!(id.starts_with("mem_") && uuid_of(id).get_version_num() == 7, "{id}");
    assert_eq!((&membership["owner_account_id"], &membership["member_account_id"]), (&json!(account), &me["id"]));
    assert_eq!((&membership["member_email"], &membership["role"]), (&me["email"], &json!("admin")));
    assert_eq!(membership["invited_by_account_id"], account);
    assert_eq!(membership["invited_at"], invite["created_at"]);
    assert_timestamp(&membership["accepted_at"]);

    assert_eq!(ada.client.list(INVITES).await, <[Value; 0]>::default());
    assert_eq!(ada.client.list(MEMBERS).await, std::slice::from_ref(membership));
    assert_eq!(grace.list(MEMBERS).await, <[Value; 0]>::default(), "members are their owner's to see");
    let owner = json!({"owner_account_id": account, "owner_email": ada.email, "owner_name": "Ada", "role": "admin",
                       "membership_id": id});
    assert_eq!(grace.list(OWNERS).await, std::slice::from_ref(&owner));
    assert_eq!(grace.get(ME).await.expect(200).body["teams"], json!([owner]));
    assert_eq!(ada.client.list(OWNERS).await, <[Value; 0]>::default());
    assert_eq!(grace.list(TEAMS).await.len(), 1, "one owns one's own team only");

    let member = uuid_of(me["id"].as_str().expect("an id"));
    let log = app.audit(ada.account).await;
    let [sent, taken] = &log[..] else { panic!("{log:?}") };
    let payload = json!({"invitee_email": "Grace@example.com", "role": "admin"});
    assert_eq!(row(sent), ("customer", Some(ada.account.as_uuid()), "team.member_invited", Some(invite_id), payload));
    assert_eq!(sent.ip_address.as_deref(), Some("127.0.0.1"));
    let payload = json!({"invite_id": invite_id, "membership_id": id, "role": "admin"});
    assert_eq!(row(taken), ("customer", Some(member), "team.invite_accepted", Some(invite_id), payload));
    assert_eq!((&taken.ip_address, &taken.user_agent), (&None, &None), "where a member is is not the owner's business");
    assert!(app.audited(member.into(), "team.invite_accepted").await.is_empty(), "the row is in the owner's log");
    app.stop().await;
}

/// Contract: teams 7; lists 1. Lists are newest first.
#[tokio::test]
async fn invites_and_members_are_listed_newest_first() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    for email in ["grace@example.com", "joan@example.com", "annie@example.com"] {
        ada.client.invite(email, "member").await.expect(202);
    }
    // An address that is invited again has a new invite.
    ada.client.invite("grace@example.com", "admin").await.expect(202);
    let listed = async |path: &str, member: &str| -> Vec<Value> {
        ada.client.list(path).await.into_iter().map(|entry| entry[member].clone()).collect()
    };
    let invited = listed(INVITES, "invitee_email").await;
    assert_eq!(invited, ["grace@example.com", "annie@example.com", "joan@example.com"]);

    // Who joined last is first, however long ago they were invited.
    let (bob, eve) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    let for_eve = app.invited(&ada, &eve.email, "member").await;
    app.join(&ada, &bob, "member").await;
    eve.client.accept(&for_eve).await.expect(200);
    assert_eq!(listed(MEMBERS, "member_account_id").await, [json!(eve.account), json!(bob.account)]);
    app.stop().await;
}

/// Contract: teams 3. An invite that is not sound is none.
#[tokio::test]
async fn an_invite_that_is_not_sound_is_none() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Free).await);
    app.join(&ada, &bob, "member").await;
    for (body, field) in [
        (json!({"role": "member"}), "email"),
        (json!({"email": "grace@example.com"}), "role"),
        (json!({"email": 1, "role": "member"}), "email"),
        (json!({"email": "", "role": "member"}), "email"),
        (json!({"email": "grace", "role": "member"}), "email"),
        (json!({"email": "grace@example.com\r\nBcc: x@y.z", "role": "member"}), "email"),
        (json!({"email": "grace@example.com", "role": "owner"}), "role"),
        (json!({"email": "grace@example.com", "role": "Admin"}), "role"),
        (json!({"email": "grace@example.com", "role": ["admin"]}), "role"),
        (json!({"email": ada.email, "role": "member"}), "email"),
        (json!({"email": ada.email.to_uppercase(), "role": "admin"}), "email"),
    ] {
        ada.client.post(INVITES, body).await.invalid(field);
    }
    for email in [&bob.email, &bob.email.to_uppercase()] {
        ada.client.invite(email, "admin").await.problem(409, "conflict");
    }
    assert_eq!(ada.client.list(INVITES).await, <[Value; 0]>::default());
    assert_eq!(app.count("select count(*) from emails where template = 'team_invite'").await, 1);
    assert_eq!(app.audited(ada.account, "team.member_invited").await.len(), 1);
    let noted =
        ada.client.post(INVITES, json!({"email": "g@example.com", "role": "member", "rôle": 1})).await.expect(202);
    assert_eq!(noted.headers["x-service-unknown-fields"], "r%C3%B4le");
    app.stop().await;
}

/// Contract: teams 3. Whoever invites an address again replaces the invite before, whose token is worthless; another owner's
/// stays.
#[tokio::test]
async fn a_new_invite_replaces_the_one_before() {
    let app = App::simulated().start().await;
    let (ada, eve) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let bob = app.person(Tier::Free).await;
    let first = app.invited(&ada, &bob.email, "admin").await;
    let from_eve = app.invited(&eve, &bob.email, "member").await;
    let before = ada.client.list(INVITES).await.remove(0);
    let second = app.invited(&ada, &bob.email, "member").await;
    let pending = ada.client.list(INVITES).await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    assert_eq!(pending[0]["role"], "member");
    assert_ne!(pending[0]["id"], before["id"]);
    bob.client.accept(&first).await.invalid("token");
    let accepted = bob.client.accept(&second).await.expect(200).body;
    assert_eq!(accepted["membership"]["role"], "member");
    bob.client.accept(&from_eve).await.expect(200);
    assert_eq!(app.audited(ada.account, "team.member_invited").await.len(), 2);

    // Several at once leave one, too.
    let invitations = (0..8).map(|_| ada.client.clone());
    let answers =
        at_once(invitations.map(|client| async move { client.invite("grace@example.com", "member").await })).await;
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    assert_eq!(ada.client.list(INVITES).await.len(), 1);
    app.stop().await;
}

/// Contract: teams 5, 6. What is refused leaves a good token good.
#[tokio::test]
async fn an_invite_is_good_for_its_reader_once_and_not_for_long() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let (bob, eve) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    for body in
        [json!({}), json!({"token": null}), json!({"token": ""}), json!({"token": "x"}), json!({"token": "\u{0}"})]
    {
        bob.client.post(ACCEPT, body).await.invalid("token");
    }
    let token = app.invited(&ada, &bob.email, "member").await;
    for other in [&eve, &ada] {
        let refused = other.client.accept(&token).await.problem(409, "conflict");
        assert!(!refused.body.to_string().contains(&bob.email), "a stranger hears who was invited");
    }
    app.execute("update team_invites set expires_at = now() where owner_account_id = $1", ada.account.as_uuid()).await;
    assert_eq!(ada.client.list(INVITES).await, <[Value; 0]>::default(), "an expired invite is not pending");
    for person in [&bob, &eve] {
        person.client.accept(&token).await.invalid("token");
    }
    let later = "update team_invites set expires_at = now() + interval '1 minute' where owner_account_id = $1";
    app.execute(later, ada.account.as_uuid()).await;

    app.suspend(&ada).await;
    bob.client.accept(&token).await.invalid("token");
    app.reactivate(&ada).await;
    let accepted = bob.client.accept(&token).await.expect(200).body;
    for person in [&bob, &eve] {
        person.client.accept(&token).await.invalid("token");
    }
    assert_eq!(ada.client.list(MEMBERS).await, [accepted["membership"].clone()]);

    // An invite that a member still has does not make them a member twice.
    let again = app.invited(&ada, &eve.email, "admin").await;
    let made =
        "insert into team_members (id, owner_account_id, member_account_id, role, invited_by_account_id, invited_at)
                select gen_random_uuid(), owner_account_id, $1, 'member', owner_account_id, now()
                from team_invites where accepted_at is null";
    app.execute(made, eve.account.as_uuid()).await;
    eve.client.accept(&again).await.problem(409, "conflict");
    assert_eq!(eve.client.list(OWNERS).await[0]["role"], "member");
    assert_eq!(app.audited(ada.account, "team.invite_accepted").await.len(), 1);

    let carol = app.person(Tier::Free).await;
    let token = app.invited(&ada, &carol.email, "member").await;
    delete_me(&ada).await.expect(204);
    carol.client.accept(&token).await.invalid("token");
    app.stop().await;
}

/// Contract: teams 5. Of 64 callers with one token one succeeds.
#[tokio::test]
async fn a_raced_invite_is_accepted_once() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Free).await);
    let token = app.invited(&ada, &bob.email, "member").await;
    let answers = at_once((0..64).map(|_| {
        let (client, token) = (bob.client.clone(), token.clone());
        async move { client.accept(&token).await }
    }))
    .await;
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!(accepted.len(), 1);
    for answer in refused {
        answer.invalid("token");
    }
    assert_eq!(ada.client.list(MEMBERS).await.len(), 1);
    assert_eq!(app.audited(ada.account, "team.invite_accepted").await.len(), 1);
    app.stop().await;
}

/// Contract: teams 6; emails 1, 2. An invite that is worthless by the time its mail would be sent is not mailed.
#[tokio::test]
async fn a_worthless_invite_is_not_mailed() {
    let mut app = App::simulated().roles(&[Role::Api]).set("teams.invite_ttl", "3h").start().await;
    let owners = [(); 5].map(|()| app.person(Tier::Enterprise));
    let mut people = Vec::new();
    for owner in owners {
        people.push(owner.await);
    }
    let [plain, expired, accepted, suspended, deleted] = &people[..] else { unreachable!("five") };
    for owner in &people {
        owner.client.invite(&format!("for-{}", owner.email), "member").await.expect(202);
    }
    plain.client.invite(&format!("for-{}", plain.email), "admin").await.expect(202);
    app.execute("update team_invites set expires_at = now() where owner_account_id = $1", expired.account.as_uuid())
        .await;
    app.execute("update team_invites set accepted_at = now() where owner_account_id = $1", accepted.account.as_uuid())
        .await;
    app.suspend(suspended).await;
    delete_me(deleted).await.expect(204);
    app.start(Role::Worker);
    app.ready().await;
    let mail = app.mail_to(&format!("for-{}", plain.email), Template::TeamInvite).await;
    assert!(mail.text.contains("3 hours"), "{}", mail.text);
    eventually(Duration::from_secs(20), "no mail waits", async || {
        let waiting = app.count("select count(*) from emails where status <> 'done'").await;
        (waiting == 0).then_some(())
    })
    .await;
    for owner in &people {
        let mails = app.mails_to(&format!("for-{}", owner.email), Template::TeamInvite).len();
        assert_eq!(mails, usize::from(owner.account == plain.account), "{}", owner.email);
    }
    app.stop().await;
}

/// Invitations are mails to people who did not ask for them: an account sends so many an hour, and an address gets so many.
#[tokio::test]
async fn invitations_are_limited() {
    let app = App::simulated().set("rate_limits.team_invites_per_hour", "2").start().await;
    let (ada, eve) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    ada.client.invite("grace@example.com", "member").await.expect(202);
    ada.client.invite("GRACE@example.com", "member").await.expect(202);
    let refused = ada.client.invite("joan@example.com", "member").await.problem(429, "rate-limited");
    assert!(refused.headers.contains_key("retry-after"));
    eve.client.invite("grace@example.com", "member").await.problem(429, "rate-limited");
    eve.client.invite("joan@example.com", "member").await.expect(202);
    app.stop().await;
}

/// Contract: teams 8; events 4; audit-log 16. A removal revokes, in its transaction, every live key that the member made on the
/// owner's account, and none without a recorded maker.
#[tokio::test]
async fn a_removed_member_keeps_no_key() {
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
    // By means of that key, too: whoever holds it is the member.
    let by_key = first.client(&app.base_url).mint(&["read"]).await.expect(201);
    assert_eq!(by_key.body["created_by_account_id"], json!(bob.account));
    let second = Minted::of(&by_key);
    let rotated = first.client(&app.base_url).post(&format!("{}/rotate", second.path()), json!({})).await;
    let third = Minted::of(&rotated);
    // What would outlive the membership is the owner's to make.
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
    assert_eq!(events.len(), 4, "one is of the key that was revoked before: {events:?}");
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
    assert_eq!(app.audited(ada.account, "api_key.revoked").await.len(), 1, "a removal writes no row for each");

    // A member who made none leaves an empty list, and may be invited once more.
    let membership = app.join(&ada, &bob, "member").await;
    ada.client.remove(&membership).await.expect(204);
    let log = app.audited(ada.account, "team.member_removed").await;
    assert_eq!(log[1].payload, json!({"revoked_api_key_ids": []}));
    app.stop().await;
}

/// Contract: teams 8. A removal that meets a key being minted by that member, or the member's deletion: whichever comes first,
/// no key survives.
#[tokio::test]
async fn a_key_and_the_removal_of_its_maker_wait_for_each_other() {
    let app = App::simulated().start().await;
    let (ada, bob) = (app.person(Tier::Enterprise).await, app.person(Tier::Enterprise).await);
    let on_ada = bob.client.on(ada.account);
    let owners_key = mint(&ada.client, &["read"]).await;
    let rotate = format!("{}/rotate", owners_key.path());
    let minting = async |count: i64| {
        let (one, other, rotate) = (on_ada.clone(), on_ada.clone(), rotate.clone());
        let minted = tokio::spawn(async move { one.mint(&["read"]).await });
        let rotated = tokio::spawn(async move { other.post(&rotate, json!({})).await });
        app.queued(count).await;
        (minted, rotated)
    };

    // The removal is first: the keys have not got to the membership.
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

    // The keys are first: they have the membership, and wait to be written.
    let membership = app.join(&ada, &bob, "admin").await;
    let mut held = app.database.pool.begin().await.expect("a transaction");
    let lock = sqlx::query("select from accounts where id = $1 for update").bind(bob.account.as_uuid());
    lock.execute(&mut *held).await.expect("a lock");
    let (minted, rotated) = minting(2).await;
    let (remover, id) = (ada.client.clone(), membership.clone());
    let removal = tokio::spawn(async move { remover.remove(&id).await });
    app.queued(3).await;
    held.commit().await.expect("a commit");
    removal.await.expect("a task").expect(204);
    for answer in [minted.await.expect("a task"), rotated.await.expect("a task")] {
        Minted::of(&answer).client(&app.base_url).get(TEAMS).await.problem(401, "unauthorized");
    }
    assert_eq!(app.live_keys(ada.account, bob.account).await, 0);
    let log = app.audited(ada.account, "team.member_removed").await;
    assert_eq!(log[1].payload["revoked_api_key_ids"].as_array().map(Vec::len), Some(2));
    app.stop().await;
}

/// The same, however it falls: by a removal, or by the member's deletion of their own account.
#[tokio::test]
async fn no_key_survives_a_removal_that_is_raced() {
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

/// Contract: accounts 9; teams 8. Memberships end both ways, invites go, and keys that it made on others' accounts are revoked
/// as in a removal, which stands in the owner's log.
#[tokio::test]
async fn a_deleted_account_leaves_every_team() {
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

    // Two that are on each other's teams can go at the same time.
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

/// Contract: authorization 9, 11, 12. On a route that honors the header a malformed one is 400, the caller's own id is as if
/// absent, and any other account is 403; where it is not honored it is ignored.
#[tokio::test]
async fn the_account_header_counts_where_it_is_honored() {
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

/// Contract: authorization 9, 10, 13. GET accepts `member` and `admin`, changes and the state read need `admin`; the scope
/// check stays on the caller's own credential. What is done is the owner's, and says who did it.
#[tokio::test]
async fn a_role_opens_what_it_is_for() {
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
    assert_eq!(preference(&ada.client.get(PREFERENCES).await), Some(json!(false)), "the owner's changed");
    assert_eq!(preference(&eve.client.get(PREFERENCES).await), Some(json!(true)), "and not the caller's");
    let theirs = admin.session().await;
    let made = ada.client.get(&format!("/v1/sessions/{theirs}")).await.expect(200).body;
    assert_eq!((&made["account_id"], &made["api_key_id"]), (&json!(ada.account), &Value::Null));
    eve.client.get(&format!("/v1/sessions/{theirs}")).await.problem(404, "not-found");
    let minted = mint(&admin, &["read"]).await;
    admin.post(&format!("{}/rotate", minted.path()), json!({})).await.expect(201);
    admin.delete(&minted.path()).await.expect(204);
    admin.delete(&at).await.expect(204);

    // The scopes are those of the caller's own credential.
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

    // Every row of a member says who it was, and nothing of where they are.
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
    assert!(by(ada.account).all(|row| row.ip_address.is_some()), "one's own rows say from where");
    let own = app.audit(eve.account).await;
    assert!(own.iter().all(|row| row.actor_type == "system"), "what is done on another account is in that one's log");
    app.stop().await;
}

/// Contract: authorization 13. Of two owners with one member in both, each is told from the other, and a slot is taken from the
/// owner's cap, never from the member's.
#[tokio::test]
async fn a_member_of_two_teams_acts_on_each_apart() {
    let app = App::simulated().start().await;
    let (ada, eve) = (app.person(Tier::SoloManual).await, app.person(Tier::Enterprise).await);
    let bob = app.person(Tier::Free).await;
    app.join(&ada, &bob, "admin").await;
    app.join(&eve, &bob, "member").await;
    let owners: Vec<_> =
        bob.client.list(OWNERS).await.into_iter().map(|owner| owner["owner_account_id"].clone()).collect();
    assert_eq!(owners, [json!(eve.account), json!(ada.account)], "the newest first");
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

/// Contract: accounts 6; authorization 13. Nobody acts on a suspended owner's account, and no suspended member on anybody's; a
/// membership outlasts that.
#[tokio::test]
async fn a_suspension_stops_a_team() {
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

/// Contract: retention 7. Invites that nobody accepted are purged a day after their end, as every expired token is.
#[tokio::test]
async fn an_expired_invite_is_purged_a_day_later() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let bob = app.person(Tier::Free).await;
    let accepted = app.invited(&ada, &bob.email, "member").await;
    bob.client.accept(&accepted).await.expect(200);
    ada.client.invite("eve@example.com", "member").await.expect(202);
    let mut conn = app.database.pool.acquire().await.expect("a connection");
    for (age, purged) in [(23.5, 0), (24.5, 1), (24.5, 0)] {
        let age = Duration::from_secs_f64(age * 3_600.0);
        sqlx::query("update team_invites set expires_at = now() - $1")
            .bind(age)
            .execute(&mut *conn)
            .await
            .expect("a row");
        assert_eq!(invites::purge_expired(&mut conn, 100).await.expect("a statement"), purged);
    }
    drop(conn);
    assert_eq!(app.count("select count(*) from team_invites where accepted_at is not null").await, 1);
    app.stop().await;
}
