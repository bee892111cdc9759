//! What is kept for a term only (contract: retention).
//!
//! Every table that grows with use is one of an [`Arm`]'s, which says when its rows have ended and are old. The SQL stands
//! with the area of the table.

use std::time::Duration;

use sqlx::PgConnection;

use crate::mfa::challenges;
use crate::sessions::{self, intents};
use crate::teams::invites;
use crate::webhooks::{deliveries, endpoints};
use crate::{devices, emails, events, identities, mail_links, oauth, usage, web_sessions, workers};

/// How long what has ended is kept.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Operations and mails, as the jobs that saw to them.
    pub jobs: Duration,
    /// Webhook deliveries, and their events.
    pub webhooks: Duration,
    /// Sessions.
    pub sessions: Duration,
    /// Incarnations of workers.
    pub workers: Duration,
    /// What was counted on a day.
    pub usage: Duration,
    /// OAuth clients that are revoked, webhook endpoints that are deleted, and invitations that were accepted.
    pub revoked: Duration,
}

/// Rows that are purged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// What sessions were asked to do.
    Operations,
    /// Mails that were sent, or given up.
    Emails,
    /// Whatever somebody may show for a while: web sessions, links, codes, challenges, tokens, pending invitations.
    Tokens,
    /// Webhook deliveries, and events that none refers to.
    Deliveries,
    /// Sessions.
    Sessions,
    /// Incarnations of workers.
    Workers,
    /// Counts of usage.
    Usage,
    /// Webhook endpoints that are deleted.
    Endpoints,
    /// OAuth clients that are revoked.
    OauthClients,
    /// Invitations that were accepted.
    Invites,
}

impl Arm {
    /// All of them. Who is referred to comes behind who refers.
    pub const ALL: [Self; 10] = [
        Self::Operations,
        Self::Emails,
        Self::Tokens,
        Self::Deliveries,
        Self::Sessions,
        Self::Workers,
        Self::Usage,
        Self::Endpoints,
        Self::OauthClients,
        Self::Invites,
    ];

    /// As metrics and operators name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operations => "operations",
            Self::Emails => "emails",
            Self::Tokens => "tokens",
            Self::Deliveries => "deliveries",
            Self::Sessions => "sessions",
            Self::Workers => "workers",
            Self::Usage => "usage",
            Self::Endpoints => "endpoints",
            Self::OauthClients => "oauth_clients",
            Self::Invites => "invites",
        }
    }

    /// Whose rows they are.
    #[must_use]
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Operations => &["intents"],
            Self::Emails => &["emails"],
            Self::Tokens => &[
                "web_sessions",
                "mail_links",
                "mfa_challenges",
                "device_authorizations",
                "oauth_tokens",
                "team_invites",
                "identity_flows",
            ],
            Self::Deliveries => &["webhook_deliveries", "events"],
            Self::Sessions => &["sessions"],
            Self::Workers => &["workers"],
            Self::Usage => &["usage_counts"],
            Self::Endpoints => &["webhook_endpoints"],
            Self::OauthClients => &["oauth_clients"],
            Self::Invites => &["team_invites"],
        }
    }

    /// Deletes what has reached its term, up to `limit` rows of each table. Answers how many: none when there is nothing to
    /// do, or somebody else does it.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn purge(self, conn: &mut PgConnection, terms: &Terms, limit: i64) -> sqlx::Result<u64> {
        match self {
            Self::Operations => intents::purge(conn, terms.jobs, limit).await,
            Self::Emails => emails::purge(conn, terms.jobs, limit).await,
            Self::Tokens => Ok(web_sessions::purge_expired(&mut *conn, limit).await?
                + mail_links::purge_expired(&mut *conn, limit).await?
                + challenges::purge_expired(&mut *conn, limit).await?
                + devices::purge_expired(&mut *conn, limit).await?
                + oauth::purge_expired_tokens(&mut *conn, limit).await?
                + invites::purge_expired(&mut *conn, limit).await?
                + identities::purge_expired(conn, limit).await?),
            Self::Deliveries => Ok(deliveries::purge(&mut *conn, terms.webhooks, limit).await?
                + events::purge(conn, terms.webhooks, limit).await?),
            Self::Sessions => sessions::purge(conn, terms.sessions, limit).await,
            Self::Workers => workers::purge(conn, terms.workers, limit).await,
            Self::Usage => usage::purge(conn, terms.usage, limit).await,
            Self::Endpoints => endpoints::purge(conn, terms.revoked, limit).await,
            Self::OauthClients => oauth::purge(conn, terms.revoked, limit).await,
            Self::Invites => invites::purge(conn, terms.revoked, limit).await,
        }
    }
}
