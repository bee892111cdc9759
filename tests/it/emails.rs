//! Mails and email preferences (contract: emails).

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use kitfleet_domain::emails::{EmailAddress, NOTICE_GOOD_FOR, Outcome, Recipient, Template};
use kitfleet_domain::mail_links::{self, Purpose};
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::FromRow;

use crate::support::commands::alone;
use crate::support::postmark::Postmark;
use crate::support::smtp::{MailServer, ServerBehavior};
use crate::support::{Answer, App, Client, Role, commands, eventually};

const HALF_AN_HOUR: Duration = Duration::from_mins(30);
const PREFERENCES: &str = "/v1/account/email-preferences";

#[derive(Debug, FromRow)]
struct Row {
    status: String,
    outcome: Option<String>,
    attempts: i32,
}

impl App {
    /// As a handler of the API does.
    async fn send(&self, template: Template, recipient: Recipient<'_>, details: Value, good_for: Duration) {
        let mut tx = self.database.pool.begin().await.expect("a transaction");
        let sent = kitfleet_jobs::emails::send(&mut tx, template, recipient, details, good_for).await;
        sent.expect("a statement").expect("the mail is queued");
        tx.commit().await.expect("a commit");
    }

    async fn notify(&self, account: AccountId, template: Template) {
        self.send(template, Recipient::Account(account), json!({}), HALF_AN_HOUR).await;
    }

    async fn done(&self) -> Row {
        eventually(Duration::from_secs(20), "the mail is done", async || {
            let row = self.only_mail().await;
            (row.status == "done").then_some(row)
        })
        .await
    }

    async fn attempted(&self, attempts: i32) -> Row {
        eventually(Duration::from_secs(20), "the mail was attempted", async || {
            let row = self.only_mail().await;
            (row.attempts == attempts && row.status == "queued").then_some(row)
        })
        .await
    }

    async fn only_mail(&self) -> Row {
        let rows = sqlx::query_as("select status, outcome, attempts from emails").fetch_all(&self.database.pool).await;
        let mut rows: Vec<Row> = rows.expect("the mails");
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }

    async fn make_mails_due(&self) {
        let make_mails_due = "update emails set next_attempt_at = now() where status <> 'done'";
        sqlx::query(make_mails_due).execute(&self.database.pool).await.expect("a statement");
    }

    async fn unverified(&self) -> (AccountId, String) {
        let account = self.account(Tier::Free).await;
        self.execute("update accounts set email_verified_at = null where id = $1", account.as_uuid()).await;
        (account, self.address_of(account).await)
    }

    async fn is_valid(&self, purpose: Purpose, token: &str) -> bool {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        mail_links::is_valid(&mut conn, purpose, token).await.expect("a statement")
    }
}

/// Contract: emails 5, 11; sign-ins 14. The mail has text and HTML parts.
#[tokio::test]
async fn mail_file_contains_one_valid_link() {
    let app = App::simulated().start().await;
    let (account, address) = app.unverified().await;
    let templates = [
        (Template::VerifyEmail, Purpose::VerifyEmail, "verify-email"),
        (Template::MagicLink, Purpose::MagicLink, "magic-link"),
        (Template::ResetPassword, Purpose::ResetPassword, "reset-password"),
        (Template::ConfirmSignIn, Purpose::ConfirmSignIn, "confirm-sign-in"),
    ];
    for (template, purpose, path) in templates {
        app.notify(account, template).await;
        let mail = app.mail_to(&address, template).await;
        assert_eq!((mail.to.as_str(), mail.from.as_str()), (address.as_str(), "no-reply@localhost"));
        assert_eq!(mail.header("From"), "Kitfleet <no-reply@localhost>");
        assert_eq!(mail.header("Auto-Submitted"), "auto-generated");
        assert_eq!(mail.header("MIME-Version"), "1.0");
        assert!(mail.header("Message-ID").ends_with("@localhost>"), "{}", mail.raw);
        assert!(!mail.header("Date").is_empty());
        assert!(mail.raw.is_ascii() && !mail.subject.is_empty());

        let link = format!("{}/{path}?token={}", app.base_url, mail.token);
        assert_eq!(mail.link(), link);
        assert!(mail.raw.contains(&format!("\r\n{link}\r\n")), "{}", mail.raw);
        assert!(mail.html.contains(&format!("href=\"{link}\"")), "{}", mail.html);
        assert_eq!(mail.token.len(), 43, "32 bytes in base64");
        assert!(app.is_valid(purpose, &mail.token).await);
        assert!(app.tables_with(&mail.token).await.is_empty(), "a token is stored");
        assert!(!app.log(0).contains(&mail.token), "a token is logged");

        for part in [&mail.text, &mail.html] {
            assert!(part.contains("30 minutes") && part.contains("ignore this mail"), "{part}");
            assert!(!part.contains("Ada"), "the mail contains text that a customer wrote");
        }
        for remote in ["<img", "<link", "<script", "url(", "@import"] {
            assert!(!mail.html.contains(remote), "{remote} in {}", mail.html);
        }
    }
    app.stop().await;
}

/// Contract: emails 3. This includes a mail that is sent again later.
#[tokio::test]
async fn new_link_invalidates_the_old_one() {
    let app = App::simulated().start().await;
    let (account, address) = app.unverified().await;
    app.notify(account, Template::MagicLink).await;
    let first = app.mail_to(&address, Template::MagicLink).await;
    app.notify(account, Template::ResetPassword).await;
    let other = app.mail_to(&address, Template::ResetPassword).await;
    app.notify(account, Template::MagicLink).await;
    let second = app.mail_number(2, &address, Template::MagicLink).await;
    assert_ne!(first.token, second.token);
    assert!(!app.is_valid(Purpose::MagicLink, &first.token).await);
    assert!(app.is_valid(Purpose::MagicLink, &second.token).await);
    assert!(app.is_valid(Purpose::ResetPassword, &other.token).await, "a link invalidated a link of another purpose");
    assert!(!app.is_valid(Purpose::ResetPassword, &second.token).await, "a link is valid for another purpose");
    app.stop().await;
}

/// Contract: emails 2; sign-ins 15. An address in any spelling belongs to its account. The queued row is the same whether there
/// is an account or not.
#[tokio::test]
async fn unknown_address_gets_no_mail() {
    let app = App::simulated().start().await;
    let stranger = EmailAddress::parse("nobody@example.com").expect("an address");
    app.send(Template::MagicLink, Recipient::Address(&stranger), json!({}), HALF_AN_HOUR).await;
    let row = app.done().await;
    assert_eq!((row.outcome, row.attempts), (None, 1));

    let (_, address) = app.unverified().await;
    let shouted = EmailAddress::parse(&address.to_uppercase()).expect("an address");
    app.send(Template::MagicLink, Recipient::Address(&shouted), json!({}), HALF_AN_HOUR).await;
    assert_eq!(app.mail_to(&address, Template::MagicLink).await.to, address);
    assert!(app.mails_to("nobody@example.com", Template::MagicLink).is_empty());
    let named = "select count(*) from emails where account_id is not null";
    assert_eq!(app.count(named).await, 0, "the request looked up the account of the address");
    app.stop().await;
}

/// Contract: emails 2.
#[tokio::test]
async fn suspended_account_gets_no_mail() {
    let app = App::simulated().set("metrics.scrape_token", "scrape").start().await;
    let (account, address) = app.unverified().await;
    app.run(&["account", "suspend", &account.to_string()]).await.code(0);
    app.notify(account, Template::ResetPassword).await;
    let row = app.done().await;
    assert_eq!((row.outcome.as_deref(), row.attempts), (Some("account-inactive"), 1));
    assert!(app.mails_to(&address, Template::ResetPassword).is_empty());
    assert_eq!(
        app.count("select count(*) from mail_links where purpose = 'reset_password'").await,
        0,
        "a link was created"
    );
    assert_eq!(counted(&app, Template::ResetPassword, Outcome::AccountInactive).await, 1);
    app.stop().await;
}

/// Contract: emails 2.
#[tokio::test]
async fn expired_or_unneeded_mail_is_not_sent() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Free).await;
    let address = app.address_of(account).await;
    app.notify(account, Template::VerifyEmail).await;
    assert_eq!(app.done().await.outcome, None);
    sqlx::query("delete from emails").execute(&app.database.pool).await.expect("a statement");
    app.send(Template::MagicLink, Recipient::Account(account), json!({}), Duration::ZERO).await;
    assert_eq!(app.done().await.outcome, None);
    for &template in Template::ALL {
        assert!(app.mails_to(&address, template).is_empty(), "{template:?}");
    }
    app.stop().await;
}

/// Contract: emails 10.
#[tokio::test]
async fn mail_is_retried_until_the_server_accepts_it() {
    let mut server = MailServer::down();
    let builder = App::simulated().set("email.transport", "smtp").set("email.smtp_url", &server.url());
    let app =
        builder.set("email.from", "Fleet <post@fleet.example>").set("metrics.scrape_token", "scrape").start().await;
    let (account, address) = app.unverified().await;
    app.notify(account, Template::VerifyEmail).await;
    assert_eq!(app.attempted(1).await.outcome.as_deref(), Some("transport"));
    // Contract: command-line 6. The job of the attempt is marked as failed.
    let failed = eventually(Duration::from_secs(10), "the attempt's job has failed", async || {
        let listed =
            app.run(&["jobs", "list", "--queue", "emails", "--status", "failed", "--json"]).await.code(0).json();
        listed.as_array()?.first().cloned()
    })
    .await;
    let reason = failed["result"]["Err"].as_str().expect("a reason");
    assert!(reason.contains("attempt 1 failed (transport)") && reason.contains("the mail is retried"), "{reason}");

    server.come_up();
    for (attempt, refusal, outcome) in [
        (2, (450, "4.7.1 slowly"), "rate-limited"),
        (3, (451, "4.3.0 try again"), "transport"),
        (4, (530, "5.7.0 who are you"), "unknown"),
    ] {
        server.set_behavior(ServerBehavior::Refuses(refusal.0, refusal.1));
        app.make_mails_due().await;
        assert_eq!(app.attempted(attempt).await.outcome.as_deref(), Some(outcome));
    }
    server.set_behavior(ServerBehavior::Accepts);
    app.make_mails_due().await;
    let row = app.done().await;
    assert_eq!((row.outcome.as_deref(), row.attempts), (Some("ok"), 5));
    let taken = server.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert_eq!((taken[0].to.as_str(), taken[0].from.as_str()), (address.as_str(), "post@fleet.example"));
    assert!(app.is_valid(Purpose::VerifyEmail, &taken[0].token).await);
    assert!(taken[0].raw.contains(&format!("\r\n{}/verify-email?token={}\r\n", app.base_url, taken[0].token)));

    let outcomes = [(Outcome::Ok, 1), (Outcome::Transport, 2), (Outcome::RateLimited, 1), (Outcome::Unknown, 1)];
    for (outcome, times) in outcomes {
        assert_eq!(counted(&app, Template::VerifyEmail, outcome).await, times, "{outcome:?}");
    }
    app.stop().await;
}

/// Contract: emails 10.
#[tokio::test]
async fn permanently_rejected_mail_is_not_retried() {
    let server = MailServer::up();
    let builder = App::simulated().set("email.transport", "smtp").set("email.smtp_url", &server.url());
    let app = builder.start().await;
    let (account, _) = app.unverified().await;
    for (refusal, outcome) in [
        ((550, "5.1.1 no such user"), "inactive-recipient"),
        ((550, "5.7.1 not from you"), "invalid-request"),
        ((554, "5.6.0 not that"), "invalid-request"),
    ] {
        server.set_behavior(ServerBehavior::Refuses(refusal.0, refusal.1));
        app.notify(account, Template::MagicLink).await;
        let row = app.done().await;
        assert_eq!((row.outcome.as_deref(), row.attempts), (Some(outcome), 1));
        sqlx::query("delete from emails").execute(&app.database.pool).await.expect("a statement");
    }
    app.stop().await;
}

/// Contract: emails 9, 10. Each attempt times out.
#[tokio::test]
async fn silent_mail_server_delays_only_its_mails() {
    let server = MailServer::up();
    server.set_behavior(ServerBehavior::StopsAnswering);
    let builder = App::simulated().set("email.transport", "smtp").set("email.smtp_url", &server.url());
    let app = builder.start().await;
    let (account, _) = app.unverified().await;
    app.notify(account, Template::MagicLink).await;
    eventually(Duration::from_secs(20), "the server has stopped answering", async || {
        (server.silences() == 1).then_some(())
    })
    .await;
    assert_eq!(app.only_mail().await.status, "sending");

    let client = app.client().await;
    let session = client.session().await;
    client.navigate(&session, "https://example.com/").await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    let first_up = "delete from emails where template = 'session_success_first'";
    sqlx::query(first_up).execute(&app.database.pool).await.expect("a statement");

    let row = eventually(Duration::from_secs(40), "the attempt has timed out", async || {
        let row = app.only_mail().await;
        (row.status == "queued").then_some(row)
    })
    .await;
    assert_eq!((row.outcome.as_deref(), row.attempts), (Some("transport"), 1));
    server.set_behavior(ServerBehavior::Accepts);
    app.make_mails_due().await;
    assert_eq!(app.done().await.outcome.as_deref(), Some("ok"));
    assert_eq!(server.taken().len(), 1);
    app.stop().await;
}

/// Contract: emails 9. Any number of jobs sends it once.
#[tokio::test]
async fn mail_of_dead_worker_is_sent_once() {
    let server = MailServer::up();
    server.set_behavior(ServerBehavior::StopsAnswering);
    let builder = App::simulated().roles(&[Role::Api, Role::Worker]);
    let mut app = builder.set("email.transport", "smtp").set("email.smtp_url", &server.url()).start().await;
    let (account, address) = app.unverified().await;
    app.notify(account, Template::ResetPassword).await;
    eventually(Duration::from_secs(20), "the server has stopped answering", async || {
        (server.silences() == 1).then_some(())
    })
    .await;
    app.signal(1, Signal::SIGKILL).await;
    assert_eq!(app.only_mail().await.status, "sending");

    server.set_behavior(ServerBehavior::Accepts);
    app.start(Role::Worker);
    app.start(Role::Worker);
    app.ready().await;
    app.make_mails_due().await;
    let row = app.done().await;
    assert_eq!((row.outcome.as_deref(), row.attempts), (Some("ok"), 2));
    let again = "insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority)
                 select 'again-' || n, job_type, job, 'Pending', 0, 1, to_timestamp(0), 0
                 from (select job_type, job from apalis.jobs where job_type = 'emails' limit 1) one, generate_series(1, 64) n";
    sqlx::query(again).execute(&app.database.pool).await.expect("a statement");
    eventually(Duration::from_secs(20), "every job has run", async || {
        let left = "select count(*) from apalis.jobs where job_type = 'emails' and status not in ('Done', 'Killed')";
        (app.count(left).await == 0).then_some(())
    })
    .await;
    let taken = server.taken();
    assert_eq!((taken.len(), taken[0].to.as_str()), (1, address.as_str()));
    assert!(app.is_valid(Purpose::ResetPassword, &taken[0].token).await);
    app.stop().await;
}

/// Contract: emails 10; operators 5. The error code in the body has precedence over the HTTP status.
#[tokio::test]
async fn postmark_error_codes_map_to_outcomes() {
    let provider = Postmark::start().await;
    let builder = App::simulated().set("email.transport", "postmark").set("email.postmark_url", &provider.base_url);
    let app =
        builder.set("email.postmark_token", "postmark-secret").set("metrics.scrape_token", "scrape").start().await;
    let (account, address) = app.unverified().await;
    for (status, code, outcome) in [
        (422, 406, Outcome::InactiveRecipient),
        (422, 412, Outcome::PendingApproval),
        (422, 413, Outcome::PendingApproval),
        (422, 300, Outcome::InvalidRequest),
        (422, 0, Outcome::InvalidRequest),
        (429, 0, Outcome::RateLimited),
        (500, 0, Outcome::Transport),
        (503, 100, Outcome::Transport),
        (401, 10, Outcome::Unknown),
        (200, 0, Outcome::Ok),
    ] {
        provider.answer(status, code);
        app.notify(account, Template::MagicLink).await;
        let row = if outcome.is_transient() { app.attempted(1).await } else { app.done().await };
        assert_eq!(row.outcome.as_deref(), Some(outcome.name()), "{status} {code}");
        sqlx::query("delete from emails").execute(&app.database.pool).await.expect("a statement");
    }
    assert_eq!(counted(&app, Template::MagicLink, Outcome::PendingApproval).await, 2);
    assert_eq!(counted(&app, Template::MagicLink, Outcome::InvalidRequest).await, 2);

    let (token, mail) = provider.sent().pop().expect("a mail");
    assert_eq!((token.as_str(), &mail["To"]), ("postmark-secret", &json!(address)));
    assert_eq!(mail["From"], "Kitfleet <no-reply@localhost>");
    assert_eq!((&mail["TrackOpens"], &mail["TrackLinks"]), (&json!(false), &json!("None")));
    let text = mail["TextBody"].as_str().expect("a text");
    let (_, token) = text.split_once("/magic-link?token=").expect("a link");
    let token = token.lines().next().expect("a token");
    assert!(app.is_valid(Purpose::MagicLink, token).await);
    assert!(mail["HtmlBody"].as_str().expect("an HTML part").contains(token));
    assert!(!app.log(0).contains("postmark-secret") && !app.log(0).contains(token));
    app.stop().await;
}

async fn counted(app: &App, template: Template, outcome: Outcome) -> u64 {
    let scraper = Client::new(&app.base_url, Some("scrape"));
    let response = scraper.request(Method::GET, "/metrics").send().await.expect("an answer");
    let text = response.text().await.expect("text");
    let of_ours = |line: &&str| {
        let labels = [format!("template=\"{}\"", template.name()), format!("outcome=\"{}\"", outcome.name())];
        line.starts_with("service_email_send_total{") && labels.iter().all(|label| line.contains(label))
    };
    let line = text.lines().find(of_ours).unwrap_or_else(|| panic!("no {template:?} {outcome:?} in {text}"));
    line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect("a count")
}

/// Contract: emails 6, 7; audit-log 17.
#[tokio::test]
async fn preferences_can_be_read_and_changed() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::SoloManual).await;
    let kinds = [
        "signup-welcome",
        "session-success-first",
        "session-failed-first",
        "tier-changed",
        "billing-receipt",
        "billing-renewal-reminder",
    ];
    let wanted = |unwanted: &[&str]| {
        let all = kinds.map(|kind| json!({"event_type": kind, "opted_in": !unwanted.contains(&kind)}));
        json!({"data": all})
    };
    assert_eq!(client.get(PREFERENCES).await.expect(200).body, wanted(&[]));
    let put = async |body: Value| client.send(client.request(Method::PUT, PREFERENCES).json(&body)).await;
    for kind in kinds {
        let off = json!({"event_type": kind, "opted_in": false});
        assert_eq!(put(off.clone()).await.expect(200).body, off);
        assert_eq!(put(off.clone()).await.expect(200).body, off, "a PUT can be repeated");
        assert_eq!(client.get(PREFERENCES).await.expect(200).body, wanted(&[kind]));
        let on = json!({"event_type": kind, "opted_in": true, "because": "x"});
        let answer = put(on).await.expect(200);
        assert_eq!(answer.body, json!({"event_type": kind, "opted_in": true}));
        assert_eq!(answer.headers["x-service-unknown-fields"], "because");
    }
    assert_eq!(client.get(PREFERENCES).await.expect(200).body, wanted(&[]));

    let rows: Vec<_> = app.audit(account).await.into_iter().filter(|row| row.action.starts_with("account.")).collect();
    assert_eq!(rows.len(), 12, "one row for each change: {rows:?}");
    let puts = kinds.iter().flat_map(|kind| [(kind, false), (kind, true)]);
    for (row, (kind, opted_in)) in rows.iter().zip(puts) {
        assert_eq!((row.action.as_str(), row.actor_type.as_str()), ("account.email_preferences_changed", "customer"));
        assert_eq!(row.payload, json!({"event_type": kind, "opted_in": opted_in}));
        assert_eq!(row.actor_account_id, Some(account.as_uuid()));
        assert!(row.actor_key_id.is_some() && row.target_resource_id.is_none());
    }

    for kind in ["password-reset", "webhook-secret", "tier_changed", "TIER-CHANGED", "", "\u{fc}"] {
        put(json!({"event_type": kind, "opted_in": false})).await.invalid("event_type");
    }
    put(json!({"opted_in": false})).await.invalid("event_type");
    put(json!({"event_type": "tier-changed"})).await.invalid("opted_in");
    put(json!({"event_type": "tier-changed", "opted_in": "no"})).await.invalid("opted_in");
    assert_eq!(client.get(PREFERENCES).await.expect(200).body, wanted(&[]));
    app.stop().await;
}

/// Contract: authorization 7, 10, 11.
#[tokio::test]
async fn preferences_require_the_account_owner() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::SoloManual).await;
    let off = json!({"event_type": "tier-changed", "opted_in": false});
    let both = async |client: &Client, header: Option<&str>| -> [Answer; 2] {
        let with = |request: reqwest::RequestBuilder| match header {
            Some(header) => request.header("x-service-account", header),
            None => request,
        };
        let put = client.request(Method::PUT, PREFERENCES).json(&off);
        [client.send(with(client.request(Method::GET, PREFERENCES))).await, client.send(with(put)).await]
    };
    for answer in both(&app.stranger(), None).await {
        answer.problem(401, "unauthorized");
    }
    for answer in both(&app.client_of(account, &["read", "write"]).await, None).await {
        answer.problem(403, "forbidden");
    }
    let owner = app.client_of(account, &["account_owner"]).await;
    for answer in both(&owner, Some(&account.to_string())).await {
        answer.expect(200);
    }
    for answer in both(&owner, Some("x")).await {
        answer.problem(400, "validation-failed");
    }
    let other = app.account(Tier::SoloManual).await;
    for answer in both(&owner, Some(&other.to_string())).await {
        answer.problem(403, "forbidden");
    }
    let theirs = app.client_of(other, &["account_owner"]).await.get(PREFERENCES).await.expect(200).body;
    assert!(theirs["data"].as_array().expect("a list").iter().all(|one| one["opted_in"] == true), "{theirs}");
    app.stop().await;
}

/// Contract: emails 1, 4. Mails without an opt-out are sent.
#[tokio::test]
async fn opted_out_mail_is_not_sent() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::SoloManual).await;
    let address = app.address_of(account).await;
    let client = app.client_of(account, &["account_owner"]).await;
    let kinds = [
        (Template::Welcome, "signup-welcome"),
        (Template::SessionSuccessFirst, "session-success-first"),
        (Template::SessionFailedFirst, "session-failed-first"),
        (Template::TierChanged, "tier-changed"),
    ];
    for (template, kind) in kinds {
        let off = json!({"event_type": kind, "opted_in": false});
        client.send(client.request(Method::PUT, PREFERENCES).json(&off)).await.expect(200);
        app.notify(account, template).await;
        assert_eq!(app.done().await.outcome, None, "{kind}");
        assert!(app.mails_to(&address, template).is_empty(), "{kind}");
        sqlx::query("delete from emails").execute(&app.database.pool).await.expect("a statement");
    }
    app.notify(account, Template::ResetPassword).await;
    app.mail_to(&address, Template::ResetPassword).await;
    app.stop().await;
}

/// Contract: emails 4; accounts 5. The mail names both tiers.
#[tokio::test]
async fn tier_change_is_mailed_once() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Free).await;
    let address = app.address_of(account).await;
    for tier in ["api_scale", "api_scale", "free"] {
        app.run(&["account", "set-tier", &account.to_string(), tier]).await.code(0);
    }
    app.mail_number(2, &address, Template::TierChanged).await;
    assert_eq!(app.count("select count(*) from emails").await, 2, "no mail without a change");
    let texts: Vec<_> = app.mails_to(&address, Template::TierChanged).into_iter().map(|mail| mail.text).collect();
    for change in ["from the free tier to the api_scale tier", "from the api_scale tier to the free tier"] {
        assert!(texts.iter().any(|text| text.contains(change)), "{texts:?}");
    }
    assert!(texts[0].contains("tier-changed"), "the mail does not explain how to opt out: {}", texts[0]);
    app.stop().await;
}

/// Contract: emails 4.
#[tokio::test]
async fn first_session_and_first_failure_are_mailed_once() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let account = app.account(Tier::ApiScale).await;
    let address = app.address_of(account).await;
    let client = app.client_of(account, &["account_owner"]).await;
    let (first, second) = (client.session().await, client.session().await);
    let mail = app.mail_to(&address, Template::SessionSuccessFirst).await;
    assert!(mail.text.contains(&first) && !mail.text.contains(&second), "{}", mail.text);

    // The browsers died with their worker, which the next operation reports.
    app.signal(1, Signal::SIGKILL).await;
    app.start(Role::Worker);
    app.ready().await;
    let tap = json!({"action": {"kind": "tap", "selector": "#button"}});
    client.operate(&first, "interact", tap.clone()).await.problem(502, "driver-error");
    let mail = app.mail_to(&address, Template::SessionFailedFirst).await;
    assert!(mail.text.contains(&first), "{}", mail.text);
    client.operate(&second, "interact", tap).await.problem(502, "driver-error");
    client.session().await;

    let mut conn = app.database.pool.acquire().await.expect("a connection");
    let kept = kitfleet_domain::emails::purge(&mut conn, Duration::ZERO, 100).await.expect("a statement");
    assert_eq!(kept, 0, "the purge deleted the mail that must stay unique");
    let again = kitfleet_domain::emails::queue(
        &mut conn,
        Template::SessionFailedFirst,
        Recipient::Account(account),
        json!({}),
        NOTICE_GOOD_FOR,
    );
    assert!(again.await.expect("a statement").is_none());
    drop(conn);
    assert_eq!(app.count("select count(*) from emails").await, 2);
    app.stop().await;
}

/// Contract: emails 11. One line of the error names the key.
#[tokio::test]
async fn incomplete_transport_fails_the_start() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[("KITFLEET_EMAIL__TRANSPORT", "smtp")], "email.smtp_url"),
        (&[("KITFLEET_EMAIL__TRANSPORT", "postmark")], "email.postmark_token"),
        (&[("KITFLEET_EMAIL__TRANSPORT", "pigeon")], "email.transport"),
        (&[("KITFLEET_EMAIL__FROM", "nobody")], "email.from"),
        (
            &[("KITFLEET_EMAIL__TRANSPORT", "smtp"), ("KITFLEET_EMAIL__SMTP_URL", "smtp://u:hunter2@h?tls=perhaps")],
            "email.smtp_url",
        ),
    ];
    for (variables, key) in cases {
        for role in ["up", "api", "worker", "config"] {
            let mut command = alone(folder.path(), &[role]);
            command.envs(variables.iter().copied());
            let ran = commands::run(command, "").await;
            assert!(matches!(ran.code, Some(1 | 2)) && ran.stdout.is_empty(), "{ran:?}");
            assert!(ran.error_text().contains(key) && !ran.error_text().contains("hunter2"), "{ran:?}");
        }
    }
}

/// Mails in files contain links and addresses.
#[tokio::test]
async fn old_mail_files_are_deleted() {
    let mut app = App::simulated().in_processes().set("retention.outbox", "1h").start().await;
    let outbox = app.data_dir.path().join("data/outbox");
    fs::create_dir_all(&outbox).expect("a folder");
    let (old, new) = (outbox.join("old.eml"), outbox.join("new.eml"));
    for file in [&old, &new] {
        fs::write(file, "To: ada@example.com").expect("a file");
    }
    let hours_ago = SystemTime::now() - Duration::from_hours(2);
    File::options().append(true).open(&old).expect("a file").set_modified(hours_ago).expect("a time");
    app.signal(0, Signal::SIGTERM).await;
    app.start(Role::Up);
    eventually(Duration::from_secs(30), "the old file is deleted", async || (!old.exists()).then_some(())).await;
    assert!(new.exists());
    app.ready().await;
    app.stop().await;
}
