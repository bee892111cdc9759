//! Mails to customers (contract: emails): the queue, the results of attempts, and the preferences of customers.
//!
//! A mail is a row, inserted in the transaction of its reason. A worker claims it, renders it and sends it. If the row
//! contains an address instead of an account, the worker looks up the account, so that a request takes the same time
//! and statements whether or not an account has that address. A mail for an invite (`teams::invites`) or for a
//! subscriber of the status page goes to their address, which may have no account.

mod preferences;

use std::time::Duration;

use kitfleet_types::ids::{AccountId, EmailId, InviteId, SubscriberId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use strum::VariantArray as _;

pub use self::preferences::{EventType, Preference, preferences, set_preference};
use crate::accounts::AccountStatus;
use crate::area::{Area, Bound, Purge, ScheduledJob};
pub use crate::email_addresses::EmailAddress;
use crate::mail_links::Purpose;
use crate::metrics::Counter;

pub(crate) const AREA: Area = Area {
    kept: &[("email_preferences", "a few for each account")],
    purges: &[Purge::new("emails", "emails", |conn, terms, limit| Box::pin(purge(conn, terms.jobs, limit)))],
    actions: &["account.email_preferences_changed"],
    metrics: &[&EMAILS_SENT],
    scheduled_jobs: &[SEND_DUE],
    bounds: &[
        ("emails", Bound::Term("`retention.finished_jobs` (7 days) after it was sent or abandoned")),
        ("email_preferences", Bound::Account("6")),
    ],
    ..Area::named("emails")
};

const EMAILS_SENT: Counter<2> = Counter::new(
    "service_email_send_total",
    "Attempts to send a mail, by template and outcome.",
    ["template", "outcome"],
)
.starting_with(|| {
    let templates = Template::ALL.iter();
    templates.flat_map(|template| Outcome::ALL.iter().map(move |outcome| [template.name(), outcome.name()])).collect()
});

/// Also takes mails whose worker died.
pub const SEND_DUE: ScheduledJob = ScheduledJob { name: "send_due_emails", period: 5 };

pub const NOTICE_GOOD_FOR: Duration = Duration::from_hours(48);

/// Marks the verification mail of a sign-up, in the mail's details and in the subject of its link. Any caller can
/// request another verification mail.
pub const SIGNUP: &str = "signup";
/// Member of the details of a verification mail: the network of the request.
pub const REQUESTED_FROM: &str = "requested_from";

/// Member of the details: address to send to instead of the account's.
pub const TO: &str = "send_to";

/// Member of the details: the subject that several mails share ([`check_repeat`]).
pub const SUBJECT: &str = "incident_id";

/// Wait for the job enqueued with the mail, before another is enqueued.
const PATIENCE: Duration = Duration::from_secs(15);

/// After that, the worker counts as lost.
const LEASE: Duration = Duration::from_secs(30);

/// Ten attempts in about a day. A mail that expires earlier has fewer.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(10),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
    Duration::from_hours(1),
    Duration::from_hours(2),
    Duration::from_hours(4),
    Duration::from_hours(8),
    Duration::from_hours(8),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Template {
    VerifyEmail,
    MagicLink,
    ResetPassword,
    /// Link to connect an account at an identity provider.
    ConfirmSignIn,
    /// Link that confirms the new address of an account.
    ChangeEmail,
    /// To an address that was to become that of another account.
    EmailHasAccount,
    /// To the previous address.
    EmailChanged,
    Welcome,
    SessionSuccessFirst,
    SessionFailedFirst,
    TierChanged,
    TeamInvite,
    WebhookSecretReminder,
    WebhookSecretGraceExpiring,
    ByokKeyReminder,
    PaymentReceipt,
    PaymentFailed,
    RenewalReminder,
    StatusConfirm,
    StatusSubscribed,
    IncidentPosted,
    IncidentUpdated,
    IncidentResolved,
}

impl Template {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn event_type(self) -> Option<EventType> {
        match self {
            Self::VerifyEmail
            | Self::MagicLink
            | Self::ResetPassword
            | Self::ConfirmSignIn
            | Self::ChangeEmail
            | Self::EmailHasAccount
            | Self::EmailChanged
            | Self::TeamInvite
            | Self::WebhookSecretReminder
            | Self::WebhookSecretGraceExpiring
            | Self::ByokKeyReminder
            | Self::PaymentFailed
            | Self::StatusConfirm
            | Self::StatusSubscribed
            | Self::IncidentPosted
            | Self::IncidentUpdated
            | Self::IncidentResolved => None,
            Self::Welcome => Some(EventType::SignupWelcome),
            Self::SessionSuccessFirst => Some(EventType::SessionSuccessFirst),
            Self::SessionFailedFirst => Some(EventType::SessionFailedFirst),
            Self::TierChanged => Some(EventType::TierChanged),
            Self::PaymentReceipt => Some(EventType::BillingReceipt),
            Self::RenewalReminder => Some(EventType::BillingRenewalReminder),
        }
    }

    #[must_use]
    pub fn purpose(self) -> Option<Purpose> {
        match self {
            Self::VerifyEmail => Some(Purpose::VerifyEmail),
            Self::MagicLink => Some(Purpose::MagicLink),
            Self::ResetPassword => Some(Purpose::ResetPassword),
            Self::ConfirmSignIn => Some(Purpose::ConfirmSignIn),
            Self::ChangeEmail => Some(Purpose::ChangeEmail),
            Self::EmailHasAccount
            | Self::EmailChanged
            | Self::Welcome
            | Self::SessionSuccessFirst
            | Self::SessionFailedFirst
            | Self::TierChanged
            | Self::TeamInvite
            | Self::WebhookSecretReminder
            | Self::WebhookSecretGraceExpiring
            | Self::ByokKeyReminder
            | Self::PaymentReceipt
            | Self::PaymentFailed
            | Self::RenewalReminder
            | Self::StatusConfirm
            | Self::StatusSubscribed
            | Self::IncidentPosted
            | Self::IncidentUpdated
            | Self::IncidentResolved => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Recipient<'a> {
    Account(AccountId),
    Address(&'a EmailAddress),
    Invitee(InviteId),
    Subscriber(SubscriberId),
}

#[derive(Debug, Clone, Copy)]
pub struct Queued {
    pub id: EmailId,
    pub expires_at: Timestamp,
}

/// The caller must enqueue the job (`kitfleet_jobs::emails::send`); otherwise the mail waits until [`take_due`] finds
/// it. `None` for a mail that is sent only once and was queued before.
pub async fn queue(
    conn: &mut PgConnection,
    template: Template,
    recipient: Recipient<'_>,
    details: Value,
    good_for: Duration,
) -> sqlx::Result<Option<Queued>> {
    let id = EmailId::generate();
    let (account, key, invite, subscriber) = match recipient {
        Recipient::Account(account) => (Some(account), None, None, None),
        Recipient::Address(address) => (None, Some(address.key()), None, None),
        Recipient::Invitee(invite) => (None, None, Some(invite), None),
        Recipient::Subscriber(subscriber) => (None, None, None, Some(subscriber)),
    };
    let expires_at = sqlx::query_scalar!(
        r#"insert into emails
               (id, template, account_id, email_key, invite_id, details, next_attempt_at, expires_at, subscriber_id)
           values ($1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7), now() + make_interval(secs => $8), $9)
           on conflict do nothing returning expires_at"#,
        id as _,
        template as _,
        account as _,
        key,
        invite as _,
        details,
        PATIENCE.as_secs_f64(),
        good_for.as_secs_f64(),
        subscriber as _,
    )
    .fetch_optional(conn)
    .await?;
    Ok(expires_at.map(|expires_at| Queued { id, expires_at }))
}

/// The mails are due immediately and are enqueued in batches ([`take_due`]), so that many of them do not delay other
/// mails.
pub async fn queue_for_subscribers(
    conn: &mut PgConnection,
    template: Template,
    subscribers: &[SubscriberId],
    details: &Value,
    good_for: Duration,
) -> sqlx::Result<()> {
    let ids: Vec<_> = subscribers.iter().map(|_| EmailId::generate()).collect();
    sqlx::query!(
        "insert into emails (id, template, subscriber_id, details, expires_at)
         select id, $3, subscriber, $4, now() + make_interval(secs => $5)
         from unnest($1::uuid[], $2::uuid[]) as mail (id, subscriber)",
        ids as _,
        subscribers as _,
        template as _,
        details,
        good_for.as_secs_f64(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Claims mails whose job or worker was lost, or that wait for another attempt. The caller must enqueue a job for each.
pub async fn take_due(conn: &mut PgConnection, limit: i64) -> sqlx::Result<Vec<EmailId>> {
    sqlx::query_scalar!(
        r#"update emails set status = 'queued', next_attempt_at = now() + make_interval(secs => $1)
           where id = any(array(select id from emails where status <> 'done' and next_attempt_at <= now()
                                order by next_attempt_at limit $2 for update skip locked))
           returning id as "id: EmailId""#,
        PATIENCE.as_secs_f64(),
        limit,
    )
    .fetch_all(conn)
    .await
}

pub async fn any_due(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let due = sqlx::query_scalar!(
        r#"select exists(select from emails where status <> 'done' and next_attempt_at <= now()) as "due!""#
    );
    due.fetch_one(conn).await
}

#[derive(Debug)]
pub struct Attempt {
    pub id: EmailId,
    pub number: i32,
    pub started_at: Timestamp,
    pub template: Template,
    pub details: Value,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    pub invite: Option<InviteId>,
    pub subscriber: Option<SubscriberId>,
    account: Option<AccountId>,
    email_key: Option<String>,
}

/// The attempt counts as lost when it takes longer than its lease. `None`: another worker has claimed the mail or it is
/// done.
pub async fn claim(conn: &mut PgConnection, id: EmailId) -> sqlx::Result<Option<Attempt>> {
    sqlx::query_as!(
        Attempt,
        r#"update emails set status = 'sending', attempts = attempts + 1, next_attempt_at = now() + make_interval(secs => $2)
           where id = $1 and status = 'queued'
           returning id as "id: _", attempts as number, now() as "started_at!: _", template as "template: _", details,
                     created_at, expires_at, invite_id as "invite: _", subscriber_id as "subscriber: _",
                     account_id as "account: _", email_key"#,
        id as _,
        LEASE.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug)]
pub struct Reader {
    pub account: AccountId,
    pub email: String,
    pub status: AccountStatus,
    pub verified: bool,
    /// Did not opt out of mails of this type.
    pub opted_in: bool,
}

/// `None` when no account has the address.
pub async fn reader(conn: &mut PgConnection, attempt: &Attempt) -> sqlx::Result<Option<Reader>> {
    sqlx::query_as!(
        Reader,
        r#"select a.id as "account: _", a.email, a.status as "status: _", a.email_verified_at is not null as "verified!",
                  coalesce(p.opted_in, true) as "opted_in!"
           from accounts a left join email_preferences p on p.account_id = a.id and p.event_type = $3
           where a.id = coalesce($1, (select id from accounts where email_key = $2 and status <> 'deleted'))"#,
        attempt.account as _,
        attempt.email_key,
        attempt.template.event_type().map(EventType::name),
    )
    .fetch_optional(conn)
    .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[sqlx(type_name = "text", rename_all = "kebab-case")]
pub enum Outcome {
    Ok,
    /// The provider has not approved the sender yet.
    PendingApproval,
    /// The provider refuses mail to the address.
    InactiveRecipient,
    /// The account is not active and gets no mail.
    AccountInactive,
    InvalidRequest,
    RateLimited,
    Transport,
    Unknown,
}

impl Outcome {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimited | Self::Transport | Self::Unknown)
    }
}

/// After a transient error the mail waits for its next attempt, unless it would expire before. Changes nothing when the
/// attempt already counts as lost.
pub async fn finish(conn: &mut PgConnection, attempt: &Attempt, outcome: Outcome) -> sqlx::Result<()> {
    let pause = usize::try_from(attempt.number - 1).ok().and_then(|made| PAUSES.get(made));
    let pause = pause.filter(|_| outcome.is_transient()).map(Duration::as_secs_f64);
    sqlx::query!(
        "update emails e
         set status = case when next.due then 'queued' else 'done' end, outcome = $3,
             next_attempt_at = case when next.due then next.at else e.next_attempt_at end,
             done_at = case when next.due then null else now() end
         from (select id, coalesce(now() + make_interval(secs => $4) < expires_at, false) as due,
                      now() + make_interval(secs => $4) as at from emails where id = $1) next
         where e.id = next.id and e.status = 'sending' and e.attempts = $2",
        attempt.id as _,
        attempt.number,
        outcome as _,
        pause,
    )
    .execute(conn)
    .await?;
    EMAILS_SENT.with([attempt.template.name(), outcome.name()]).increment(1);
    Ok(())
}

/// Treatment of a mail that would follow a similar one too soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatPolicy {
    None,
    Waits,
    /// A newer mail is queued, which includes the content of this one.
    Superseded,
}

/// Waits for `interval` after the last mail with the same template and subject ([`SUBJECT`]), and while such a mail is
/// being sent. A delayed mail expires `interval` after it is due, at the earliest.
pub async fn check_repeat(
    conn: &mut PgConnection,
    attempt: &Attempt,
    interval: Duration,
) -> sqlx::Result<RepeatPolicy> {
    let others = sqlx::query!(
        r#"with until as (
               select coalesce(bool_or(o.id > $1 and o.status <> 'done'), false) as superseded,
                      max(case when o.outcome = 'ok' then o.done_at + make_interval(secs => $3)
                               when o.status = 'sending' then o.next_attempt_at end) as due_at
               from emails e join emails o on o.subscriber_id = e.subscriber_id and o.template = e.template and o.id <> e.id
                 and o.details->>$4::text = e.details->>$4::text
               where e.id = $1
           ), waits as (
               update emails set status = 'queued', next_attempt_at = until.due_at,
                                 expires_at = greatest(expires_at, until.due_at + make_interval(secs => $3))
               from until where id = $1 and status = 'sending' and attempts = $2 and not until.superseded and until.due_at > now()
               returning 1
           )
           select superseded as "superseded!", exists(select from waits) as "waits!" from until"#,
        attempt.id as _,
        attempt.number,
        interval.as_secs_f64(),
        SUBJECT,
    )
    .fetch_one(conn)
    .await?;
    Ok(match (others.superseded, others.waits) {
        (true, _) => RepeatPolicy::Superseded,
        (false, true) => RepeatPolicy::Waits,
        (false, false) => RepeatPolicy::None,
    })
}

pub async fn discard(conn: &mut PgConnection, attempt: &Attempt) -> sqlx::Result<()> {
    sqlx::query!(
        "update emails set status = 'done', done_at = now() where id = $1 and status = 'sending' and attempts = $2",
        attempt.id as _,
        attempt.number,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn cancel(conn: &mut PgConnection, id: EmailId) -> sqlx::Result<()> {
    sqlx::query!("update emails set status = 'done', done_at = now() where id = $1 and status = 'queued'", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Sent, abandoned or deleted.
pub async fn has_ended(conn: &mut PgConnection, id: EmailId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select not exists(select from emails where id = $1 and status <> 'done') as "ended!""#,
        id as _
    )
    .fetch_one(conn)
    .await
}

/// Keeps mails that are sent only once.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from emails where id = any(array(
             select id from emails where status = 'done' and done_at < now() - make_interval(secs => $1)
               and template not in ('welcome', 'session_success_first', 'session_failed_first')
             order by done_at limit $2 for update skip locked))",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}
