//! Mails to customers (contract: emails): what is to be sent, what was, and what they do not want.
//!
//! A mail is a row before it is a message. Whoever wants one sent writes the row in the transaction of its reason; a
//! worker claims it, renders it and sends it, and keeps the row until then, however often it has to try. A row that
//! names an address instead of an account is resolved by the worker: a request takes the same time and the same
//! statements whether somebody has that address or not. One that names an invite goes to whoever is invited, who need not
//! have an account (`teams::invites`), and one that names a subscriber of the status page goes to their address.

mod preferences;

use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;
use strum::VariantArray as _;

pub use self::preferences::{EventType, Preference, preferences, set_preference};
use crate::accounts::AccountStatus;
use crate::area::{Area, Bound, Purge, ScheduledJob};
pub use crate::email_addresses::EmailAddress;
use crate::ids::{AccountId, EmailId, InviteId, SubscriberId};
use crate::mail_links::Purpose;
use crate::timestamp::Timestamp;

pub(crate) const AREA: Area = Area {
    kept: &[("email_preferences", "a few an account")],
    purges: &[Purge::new("emails", "emails", |conn, terms, limit| Box::pin(purge(conn, terms.jobs, limit)))],
    actions: &["account.email_preferences_changed"],
    chains: &[SEND_DUE],
    bounds: &[
        ("emails", Bound::Term("`retention.finished_jobs` (7 days) after it was sent or abandoned")),
        ("email_preferences", Bound::Account("6")),
    ],
    ..Area::named("emails")
};

/// Enqueues mails that wait for another attempt, and those whose worker died.
pub const SEND_DUE: ScheduledJob = ScheduledJob { name: "send_due_emails", period: 5 };

/// How long a mail is worth sending that has no link in it.
pub const NOTICE_GOOD_FOR: Duration = Duration::from_hours(48);

/// The member of a verification mail's details, and of its link's subject, that the signup's own has: anybody may have asked
/// for another one.
pub const SIGNUP: &str = "signup";
/// Member of the details of a verification mail that was requested: the network of the request.
pub const REQUESTED_FROM: &str = "requested_from";

/// The member of a mail's details that says what it is one of several mails about ([`let_rest`]).
pub const SUBJECT: &str = "incident_id";

/// How long a mail waits for the job that was enqueued along with it, before it is enqueued once more.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long an attempt may take before it counts as lost with its worker.
const LEASE: Duration = Duration::from_secs(30);

/// The pauses between a mail's attempts, ten of them in about a day; a mail that expires earlier has fewer.
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

/// What a mail is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Template {
    /// Proves the address.
    VerifyEmail,
    /// Signs in.
    MagicLink,
    /// Lets its reader choose a new password.
    ResetPassword,
    /// Links an account at an identity provider.
    ConfirmSignIn,
    /// Greets whoever has proven their address.
    Welcome,
    /// The account's first session is ready.
    SessionSuccessFirst,
    /// The account's first session has failed.
    SessionFailedFirst,
    /// The account moved to another tier.
    TierChanged,
    /// Asks somebody onto a team.
    TeamInvite,
    /// A webhook endpoint's secret has become old.
    WebhookSecretReminder,
    /// A webhook endpoint's secret before the present one signs no more soon.
    WebhookSecretGraceExpiring,
    /// A key at a model provider has been kept for long.
    ByokKeyReminder,
    /// A subscription was paid.
    PaymentReceipt,
    /// A subscription could not be paid.
    PaymentFailed,
    /// A subscription is to be paid soon.
    RenewalReminder,
    /// Asks an address whether it wants to be told of incidents.
    StatusConfirm,
    /// It is told of them from now on.
    StatusSubscribed,
    /// There is an incident.
    IncidentPosted,
    /// There is news of it.
    IncidentUpdated,
    /// It is over.
    IncidentResolved,
}

impl Template {
    /// Every one.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// As metrics, files and the database name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// What a customer opts out of, who does not want it.
    #[must_use]
    pub fn event_type(self) -> Option<EventType> {
        match self {
            Self::VerifyEmail
            | Self::MagicLink
            | Self::ResetPassword
            | Self::ConfirmSignIn
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

    /// The purpose of the account's link in it.
    #[must_use]
    pub fn purpose(self) -> Option<Purpose> {
        match self {
            Self::VerifyEmail => Some(Purpose::VerifyEmail),
            Self::MagicLink => Some(Purpose::MagicLink),
            Self::ResetPassword => Some(Purpose::ResetPassword),
            Self::ConfirmSignIn => Some(Purpose::ConfirmSignIn),
            Self::Welcome
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

/// To whom.
#[derive(Debug, Clone, Copy)]
pub enum Recipient<'a> {
    /// To an account that is known.
    Account(AccountId),
    /// To whoever has this address; nobody may.
    Address(&'a EmailAddress),
    /// To whoever this invite is for.
    Invitee(InviteId),
    /// To this subscriber of the status page.
    Subscriber(SubscriberId),
}

/// A mail that waits.
#[derive(Debug, Clone, Copy)]
pub struct Queued {
    /// Its id.
    pub id: EmailId,
    /// Until when it, and a link in it, is good.
    pub expires_at: Timestamp,
}

/// Writes a mail's row; somebody has to be told (`kitfleet_jobs::emails::send`), or it waits a little longer. `None` when
/// it is sent once and was before.
///
/// # Errors
/// When the database fails.
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

/// Writes a mail to each of these subscribers. They are due at once, and enqueued as all are that are ([`take_due`]), so that many do
/// not stand before others.
///
/// # Errors
/// When the database fails.
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

/// Mails that are due, now in their caller's hands: the job of each was lost, or its worker, or it waits for another
/// attempt.
///
/// # Errors
/// When the database fails.
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

/// Whether any mail is due, which [`take_due`] would take.
///
/// # Errors
/// When the database fails.
pub async fn any_due(conn: &mut PgConnection) -> sqlx::Result<bool> {
    let due = sqlx::query_scalar!(
        r#"select exists(select from emails where status <> 'done' and next_attempt_at <= now()) as "due!""#
    );
    due.fetch_one(conn).await
}

/// An attempt to send a mail.
#[derive(Debug)]
pub struct Attempt {
    /// The mail.
    pub id: EmailId,
    /// Which attempt this is, from 1.
    pub number: i32,
    /// When it began.
    pub started_at: Timestamp,
    /// What the mail is about.
    pub template: Template,
    /// What it tells besides.
    pub details: Value,
    /// When the mail was asked for.
    pub created_at: Timestamp,
    /// Until when it, and a link in it, is good.
    pub expires_at: Timestamp,
    /// The invite that it is about.
    pub invite: Option<InviteId>,
    /// The subscriber of the status page whom it is to.
    pub subscriber: Option<SubscriberId>,
    account: Option<AccountId>,
    email_key: Option<String>,
}

/// Begins an attempt, which is lost when it takes longer than its lease. `None` when the mail is not waiting: somebody
/// else has it, or it is done.
///
/// # Errors
/// When the database fails.
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

/// Who would read a mail.
#[derive(Debug)]
pub struct Reader {
    /// Whose account it is.
    pub account: AccountId,
    /// Where it goes.
    pub email: String,
    /// Whether the account may act.
    pub status: AccountStatus,
    /// Whether the address was proven.
    pub verified: bool,
    /// Whether mails of this kind are welcome.
    pub opted_in: bool,
}

/// Who would read the mail; `None` when nobody has the address.
///
/// # Errors
/// When the database fails.
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

/// How an attempt ended, as `service_email_send_total` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::Type, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[sqlx(type_name = "text", rename_all = "kebab-case")]
pub enum Outcome {
    /// It is on its way.
    Ok,
    /// The provider has not let us send yet.
    PendingApproval,
    /// The address takes no mail.
    InactiveRecipient,
    /// The account may not act, and gets no mail.
    AccountInactive,
    /// What was asked of the provider or the mail server makes no sense to it.
    InvalidRequest,
    /// Too much at once.
    RateLimited,
    /// Nobody was there, or they broke off.
    Transport,
    /// Anything else.
    Unknown,
}

impl Outcome {
    /// Every one.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// As metrics and the database name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether another attempt may end better.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimited | Self::Transport | Self::Unknown)
    }
}

/// Ends an attempt that came to this. A mail whose outcome may pass waits for its next attempt, unless it would be worth
/// nothing by then. Changes nothing when the attempt had been given up.
///
/// # Errors
/// When the database fails.
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
    metrics::counter!("service_email_send_total", "template" => attempt.template.name(), "outcome" => outcome.name())
        .increment(1);
    Ok(())
}

/// What becomes of a mail whose reader is not to get another one of the same so soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatPolicy {
    /// It is sent now.
    None,
    /// It waits, and is due again when it may be sent.
    Waits,
    /// A newer one waits, which tells what this one would and more.
    Superseded,
}

/// Has a mail to a subscriber wait while one of the same template and subject ([`SUBJECT`]) was sent to them within `interval`, or is
/// being sent: however late the one before went out, this one goes out no sooner than that. It is good for another `interval` from then.
///
/// # Errors
/// When the database fails.
pub async fn let_rest(conn: &mut PgConnection, attempt: &Attempt, interval: Duration) -> sqlx::Result<RepeatPolicy> {
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

/// Ends a mail that nobody is to get.
///
/// # Errors
/// When the database fails.
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

/// Keeps a mail that waits from being sent, for good.
///
/// # Errors
/// When the database fails.
pub async fn cancel(conn: &mut PgConnection, id: EmailId) -> sqlx::Result<()> {
    sqlx::query!("update emails set status = 'done', done_at = now() where id = $1 and status = 'queued'", id as _)
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether a mail waits no longer: it was sent or given up, or its row is gone.
///
/// # Errors
/// When the database fails.
pub async fn has_ended(conn: &mut PgConnection, id: EmailId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select not exists(select from emails where id = $1 and status <> 'done') as "ended!""#,
        id as _
    )
    .fetch_one(conn)
    .await
}

/// Deletes mails that were done longer ago than `age`, except those that are sent once. Answers how many.
///
/// # Errors
/// When the database fails.
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
