//! Sending mails.
//!
//! The worker generates a link's token when it sends the mail and stores only the hash, in `mail_links` or in the invitation.
//! An attempt holds no pool connection while it waits for the mail server. After a transient error, the mail is retried with
//! the backoff of its row and a new token. If a worker dies after the mail server accepts a mail and before that is recorded,
//! the mail is sent twice, which is better than never.

mod file;
mod letter;
mod mail;
mod postmark;
mod smtp;
mod subscribers;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::BoxDynError;
use kitfleet_domain::accounts::AccountStatus;
use kitfleet_domain::database::is_transient;
use kitfleet_domain::emails::{self, Attempt, Outcome, Template};
use kitfleet_domain::mail_links;
use kitfleet_domain::status::subscribers::Unsubscriber;
use kitfleet_domain::teams::invites;
use kitfleet_jobs::emails::EmailJob;
use sqlx::{PgConnection, PgPool};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};
use url::Url;

use self::letter::Letter;
use self::mail::Mail;
pub use self::mail::{Sender, SenderError};
pub use self::postmark::Account as PostmarkAccount;
pub use self::smtp::{Relay, RelayError};
use crate::Context;

const ATTEMPT_LIMIT: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 8;
/// Number of retries, and the pause between them.
const WRITES: (u32, Duration) = (50, Duration::from_millis(200));

/// Between removals of old mails.
const CLEANUP_EVERY: Duration = Duration::from_hours(1);

#[derive(Debug, Clone)]
pub struct MailConfig {
    pub from: Sender,
    pub transport: MailTransport,
}

#[derive(Debug, Clone)]
pub enum MailTransport {
    /// In `outbox` under the data directory.
    File,
    Smtp(Relay),
    Postmark(PostmarkAccount),
}

pub(crate) struct Mailer {
    from: Sender,
    /// ASCII, without a trailing slash.
    base_url: String,
    transport: Transport,
    permits: Semaphore,
    /// Signing key for unsubscribe links, loaded when first needed.
    unsubscriber: OnceCell<Unsubscriber>,
    /// Between two updates of an incident to a subscriber.
    update_interval: Duration,
}

enum Transport {
    File(file::Outbox),
    Smtp(Relay),
    Postmark(PostmarkAccount),
}

struct NotSent {
    outcome: Outcome,
    detail: String,
}

impl NotSent {
    fn new(outcome: Outcome, detail: impl fmt::Display) -> Self {
        Self { outcome, detail: detail.to_string() }
    }
}

impl Mailer {
    pub(crate) fn new(config: &MailConfig, base_url: &str, data_dir: &Path, update_interval: Duration) -> Self {
        let transport = match &config.transport {
            MailTransport::File => Transport::File(file::Outbox::new(data_dir.join("outbox"))),
            MailTransport::Smtp(relay) => Transport::Smtp(relay.clone()),
            MailTransport::Postmark(account) => Transport::Postmark(account.clone()),
        };
        let base_url = Url::parse(base_url).map_or_else(|_| base_url.to_owned(), String::from);
        Self {
            from: config.from.clone(),
            base_url: base_url.trim_end_matches('/').to_owned(),
            transport,
            permits: Semaphore::new(AT_ONCE),
            unsubscriber: OnceCell::new(),
            update_interval,
        }
    }

    /// Never returns.
    pub(crate) async fn remove_older(&self, age: Duration) {
        let Transport::File(outbox) = &self.transport else { return std::future::pending().await };
        loop {
            match outbox.remove_older_than(age).await {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed old mails from the outbox"),
                Err(error) => tracing::warn!(%error, "cannot remove old mails from the outbox"),
            }
            sleep(CLEANUP_EVERY).await;
        }
    }

    async fn permit(&self) -> SemaphorePermit<'_> {
        self.permits.acquire().await.unwrap_or_else(|_| unreachable!("the semaphore is never closed"))
    }

    async fn send(&self, mail: &Mail) -> Result<(), NotSent> {
        let sent = async {
            match &self.transport {
                Transport::File(outbox) => outbox.send(mail, &self.from).await,
                Transport::Smtp(relay) => relay.send(mail, &self.from).await,
                Transport::Postmark(account) => account.send(mail, &self.from).await,
            }
        };
        let late = |_| Err(NotSent::new(Outcome::Transport, format!("no answer within {ATTEMPT_LIMIT:?}")));
        timeout(ATTEMPT_LIMIT, sent).await.unwrap_or_else(late)
    }
}

/// A failed attempt is a failed job, even if the mail is retried: the next attempt is a new job.
pub(crate) async fn handle(job: EmailJob, context: Arc<Context>) -> Result<(), BoxDynError> {
    // The mail stays due, and another worker sends it.
    let Some(_permit) = context.stopping.run_until_cancelled(context.mailer.permit()).await else { return Ok(()) };
    let mut conn = context.db.acquire().await?;
    let Some(attempt) = emails::claim(&mut conn, job.email).await? else { return Ok(()) };
    let Some(mail) = compose(&mut conn, &context.mailer, &attempt).await? else { return Ok(()) };
    drop(conn);

    let (email, template) = (attempt.id, attempt.template.name());
    let outcome = match context.mailer.send(&mail).await {
        Ok(()) => {
            tracing::info!(%email, template, "mail sent");
            Outcome::Ok
        }
        Err(NotSent { outcome, detail }) => {
            let (outcome_name, number) = (outcome.name(), attempt.number);
            tracing::warn!(%email, template, outcome = outcome_name, attempt = number, detail, "mail was not sent");
            outcome
        }
    };
    finish(&context.db, &attempt, outcome).await?;
    // The job's error omits the mail server's reply, which may contain an address; the log has it.
    if outcome == Outcome::Ok { Ok(()) } else { Err(description(outcome, attempt.number).into()) }
}

fn description(outcome: Outcome, number: i32) -> String {
    let next = if outcome.is_transient() {
        "the mail is retried unless it expires first"
    } else {
        "the mail will not be retried"
    };
    format!("attempt {number} failed ({}); {next}", outcome.name())
}

/// With a new link if the template has one. Returns `None`, and records it, when the mail has no recipient any more.
async fn compose(conn: &mut PgConnection, mailer: &Mailer, attempt: &Attempt) -> sqlx::Result<Option<Mail>> {
    if let Some(invite) = attempt.invite {
        let Some(link) = invites::issue(&mut *conn, invite).await? else {
            emails::discard(conn, attempt).await?;
            return Ok(None);
        };
        let letter = Letter::write(attempt, &mailer.base_url, Some(&link.token));
        return Ok(Some(Mail::new(attempt, link.invitee_email, &letter)));
    }
    if let Some(subscriber) = attempt.subscriber {
        return subscribers::compose(conn, mailer, attempt, subscriber).await;
    }
    let Some(reader) = emails::reader(&mut *conn, attempt).await? else {
        emails::discard(conn, attempt).await?;
        return Ok(None);
    };
    if reader.status != AccountStatus::Active {
        emails::finish(conn, attempt, Outcome::AccountInactive).await?;
        return Ok(None);
    }
    let pointless = attempt.template == Template::VerifyEmail && reader.verified;
    if pointless || !reader.opted_in || attempt.expires_at <= attempt.started_at {
        emails::discard(conn, attempt).await?;
        return Ok(None);
    }
    let token = match attempt.template.purpose() {
        Some(purpose) => {
            let description =
                matches!(attempt.template, Template::ConfirmSignIn | Template::VerifyEmail | Template::ChangeEmail);
            let subject = description.then_some(&attempt.details);
            Some(mail_links::issue(conn, reader.account, purpose, subject, attempt.expires_at).await?)
        }
        None => None,
    };
    let letter = Letter::write(attempt, &mailer.base_url, token.as_ref());
    let to = attempt.details[emails::TO].as_str().map_or(reader.email, str::to_owned);
    Ok(Some(Mail::new(attempt, to, &letter)))
}

/// Retries while the database is briefly unavailable: a sent mail that is not recorded would be sent again.
async fn finish(db: &PgPool, attempt: &Attempt, outcome: Outcome) -> sqlx::Result<()> {
    let write = async || emails::finish(&mut *db.acquire().await?, attempt, outcome).await;
    for _ in 1..WRITES.0 {
        match write().await {
            Err(error) if is_transient(&error) => {
                tracing::warn!(%error, email = %attempt.id, "cannot record the result of a mail attempt: trying again");
            }
            ended => return ended,
        }
        tokio::time::sleep(WRITES.1).await;
    }
    write().await
}
