//! Invitations and their acceptance (contract: teams).

use std::collections::BTreeSet;
use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_domain::teams::invites;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};

use super::{INVITES, ME, MEMBERS, OWNERS, TEAMS, delete_me, row};
use crate::support::records::uuid_of;
use crate::support::{App, Role, at_once, eventually, members, stable};

pub const ACCEPT: &str = "/v1/team/invites/accept";

/// Contract: teams 3 to 7; accounts 3; audit-log 16. The invitee needs no account at first.
#[tokio::test]
async fn invitee_joins_the_team() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    let invited = ada.client.invite(" Grace@Example.com ", "admin").await.expect(202);
    assert_eq!(members(&invited.body), BTreeSet::from(["message"]));
    assert!(invited.body["message"].is_string());

    let pending = ada.client.list(INVITES).await;
    let [invite] = &pending[..] else { panic!("{pending:?}") };
    insta::assert_json_snapshot!("invite", stable(invite));
    let account = ada.account.to_string();
    for member in ["owner_account_id", "invited_by_account_id"] {
        assert_eq!(invite[member], account, "{member}");
    }
    let invite_id = invite["id"].as_str().expect("an id");
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
    assert_eq!(grace.list(INVITES).await, <[Value; 0]>::default(), "only the owner sees the invitations");
    let accepted = grace.accept(&mail.token).await.expect(200).body;
    assert_eq!(members(&accepted), BTreeSet::from(["membership"]));
    let membership = &accepted["membership"];
    insta::assert_json_snapshot!("membership", stable(membership));
    let id = membership["id"].as_str().expect("an id");
    assert_eq!((&membership["owner_account_id"], &membership["member_account_id"]), (&json!(account), &me["id"]));
    assert_eq!(membership["invited_by_account_id"], account);
    assert_eq!(membership["invited_at"], invite["created_at"]);

    assert_eq!(ada.client.list(INVITES).await, <[Value; 0]>::default());
    assert_eq!(ada.client.list(MEMBERS).await, std::slice::from_ref(membership));
    assert_eq!(grace.list(MEMBERS).await, <[Value; 0]>::default(), "only the owner sees the members");
    let owner = json!({"owner_account_id": account, "owner_email": ada.email, "owner_name": "Ada", "role": "admin",
                       "membership_id": id});
    assert_eq!(grace.list(OWNERS).await, std::slice::from_ref(&owner));
    assert_eq!(grace.get(ME).await.expect(200).body["teams"], json!([owner]));
    assert_eq!(ada.client.list(OWNERS).await, <[Value; 0]>::default());
    assert_eq!(grace.list(TEAMS).await.len(), 1, "the member owns only the own team");

    let member = uuid_of(me["id"].as_str().expect("an id"));
    let log = app.audit(ada.account).await;
    let [sent, taken] = &log[..] else { panic!("{log:?}") };
    let payload = json!({"invitee_email": "Grace@example.com", "role": "admin"});
    assert_eq!(row(sent), ("customer", Some(ada.account.as_uuid()), "team.member_invited", Some(invite_id), payload));
    assert_eq!(sent.ip_address.as_deref(), Some("127.0.0.1"));
    let payload = json!({"invite_id": invite_id, "membership_id": id, "role": "admin"});
    assert_eq!(row(taken), ("customer", Some(member), "team.invite_accepted", Some(invite_id), payload));
    assert_eq!((&taken.ip_address, &taken.user_agent), (&None, &None), "the owner does not see the member's address");
    assert!(app.audited(member.into(), "team.invite_accepted").await.is_empty(), "the row is in the owner's log");
    app.stop().await;
}

/// Contract: teams 7; lists 1.
#[tokio::test]
async fn invites_and_members_are_listed_newest_first() {
    let app = App::simulated().start().await;
    let ada = app.person(Tier::Enterprise).await;
    for email in ["grace@example.com", "joan@example.com", "annie@example.com"] {
        ada.client.invite(email, "member").await.expect(202);
    }
    ada.client.invite("grace@example.com", "admin").await.expect(202);
    let listed = async |path: &str, member: &str| -> Vec<Value> {
        ada.client.list(path).await.into_iter().map(|entry| entry[member].clone()).collect()
    };
    let invited = listed(INVITES, "invitee_email").await;
    assert_eq!(invited, ["grace@example.com", "annie@example.com", "joan@example.com"]);

    // Members are ordered by the time they joined, not by the time of the invitation.
    let (bob, eve) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    let for_eve = app.invited(&ada, &eve.email, "member").await;
    app.join(&ada, &bob, "member").await;
    eve.client.accept(&for_eve).await.expect(200);
    assert_eq!(listed(MEMBERS, "member_account_id").await, [json!(eve.account), json!(bob.account)]);
    app.stop().await;
}

/// Contract: teams 3.
#[tokio::test]
async fn invalid_invite_is_rejected() {
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

/// Contract: teams 3. Invitations of other owners stay valid.
#[tokio::test]
async fn new_invite_replaces_the_earlier_one() {
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

    // Concurrent invitations leave one too.
    let invitations = (0..8).map(|_| ada.client.clone());
    let answers =
        at_once(invitations.map(|client| async move { client.invite("grace@example.com", "member").await })).await;
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    assert_eq!(ada.client.list(INVITES).await.len(), 1);
    app.stop().await;
}

/// Contract: teams 5, 6. A rejected attempt does not use it up.
#[tokio::test]
async fn invite_is_valid_once_for_its_address_until_expiry() {
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
        assert!(!refused.body.to_string().contains(&bob.email), "the answer reveals the invited address");
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

/// Contract: teams 5.
#[tokio::test]
async fn concurrent_acceptances_succeed_once() {
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

/// Contract: teams 6; emails 1, 2. The invitation becomes invalid before its mail is sent.
#[tokio::test]
async fn invalid_invite_is_not_mailed() {
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

/// Invitations are unsolicited mails: the limits are per inviting account and per invited address.
#[tokio::test]
async fn invitations_are_rate_limited() {
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

/// Contract: retention 7.
#[tokio::test]
async fn expired_invite_is_purged_after_a_day() {
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

/// Contract: teams 12. The previous link is void at once.
#[tokio::test]
async fn invite_is_resent_and_revoked() {
    let app = App::simulated().start().await;
    let (owner, member) = (app.person(Tier::Free).await, app.person(Tier::Free).await);
    let first = app.invited(&owner, &member.email, "member").await;
    let id = owner.client.list(INVITES).await[0]["id"].as_str().expect("an id").to_owned();
    let path = format!("{INVITES}/{id}");
    member.client.post(&format!("{path}/resend"), json!({})).await.problem(404, "not-found");
    owner.client.post(&format!("{path}/resend"), json!({})).await.expect(202);
    let second = app.mail_number(2, &member.email, Template::TeamInvite).await.token;
    member.client.accept(&first).await.invalid("token");
    member.client.delete(&path).await.problem(404, "not-found");
    owner.client.delete(&path).await.expect(204);
    member.client.accept(&second).await.invalid("token");
    owner.client.delete(&path).await.problem(404, "not-found");
    owner.client.post(&format!("{path}/resend"), json!({})).await.problem(404, "not-found");
    let rows = app.audited(owner.account, "team.invite_revoked").await;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].payload, json!({"invitee_email": member.email, "role": "member"}));
    app.stop().await;
}
