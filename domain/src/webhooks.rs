//! Webhooks (contract: webhooks).
//!
//! The database inserts the deliveries of an event in the transaction of its cause (`fan_out_event` in the migrations).
//! The receiving endpoints are selected at that moment, and no delivery of a committed event is lost.

pub mod attempts;
pub mod dead_letters;
pub mod deliveries;
pub mod endpoints;
pub mod inspection;
pub mod reminders;
pub mod requeues;
pub mod secrets;

use kitfleet_types::ids::WebhookId;
use kitfleet_types::limits::Limits;
use kitfleet_types::validation::Invalid;
use url::Url;

use crate::area::{Area, Bound, Purge, ScheduledJob, Sealed};
use crate::events::EventType;

pub(crate) const AREA: Area = Area {
    purges: &[
        Purge::new("requeues", "delivery_requeues", |conn, terms, limit| {
            Box::pin(requeues::purge(conn, terms.webhooks, limit))
        }),
        Purge::new("deliveries", "webhook_deliveries", |conn, terms, limit| {
            Box::pin(deliveries::purge(conn, terms.webhooks, limit))
        }),
        Purge::new("endpoints", "webhook_endpoints", |conn, terms, limit| {
            Box::pin(endpoints::purge(conn, terms.revoked, limit))
        }),
    ],
    actions: &[
        "webhook_endpoint.created",
        "webhook_endpoint.updated",
        "webhook_endpoint.deleted",
        "webhook_endpoint.secret_rotated",
        "webhook_delivery.replayed",
    ],
    mails: &["webhook_secret_reminder", "webhook_secret_grace_expiring"],
    scheduled_jobs: &[GIVE_UP, REMIND_OF_SECRETS, REQUEUE],
    on_account_delete_last: &[|conn, account, _| Box::pin(endpoints::delete_all(conn, account))],
    bounds: &[
        (
            "webhook_endpoints",
            Bound::Account(
                "`limits.webhook_endpoints` (10) that are not disabled; deleted ones are purged after 90 days",
            ),
        ),
        (
            "webhook_deliveries",
            Bound::Term(
                "`retention.webhook_bodies` (30 days) after it ended; a waiting one ends after 6 attempts, or with its endpoint",
            ),
        ),
        ("delivery_requeues", Bound::Operator("one for each request of staff")),
    ],
    sealed: &[Sealed {
        kind: "webhook_secrets",
        table: "webhook_endpoints",
        id: "id",
        part: None,
        purpose: secrets::PURPOSE,
        has_shared_key: true,
        columns: &[
            ("sealed_secret", |row| WebhookId::from(row.id).to_string()),
            ("sealed_prev_secret", |row| WebhookId::from(row.id).to_string()),
        ],
    }],
    ..Area::named("webhooks")
};

pub const GIVE_UP: ScheduledJob = ScheduledJob { name: "give_up_deliveries", period: 5 };

/// Job that sends dead letters again in batches, as requested by staff.
pub const REQUEUE: ScheduledJob = ScheduledJob { name: "requeue_dead_letters", period: 5 };

/// Job that mails the owners of endpoints whose secrets are old or will soon stop signing.
pub const REMIND_OF_SECRETS: ScheduledJob = ScheduledJob { name: "remind_webhook_secrets", period: 60 };

const URL_CHARS: usize = 2_048;

/// An https URL, as its owner wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl(String);

impl WebhookUrl {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |message: &str| Invalid::field("url", message.to_owned());
        let text = text.trim();
        if text.chars().count() > URL_CHARS {
            return Err(refuse(&format!("must have at most {URL_CHARS} characters")));
        }
        let url = Url::parse(text).map_err(|_| refuse("must be an absolute URL"))?;
        if url.scheme() != "https" {
            return Err(refuse("must be an https URL"));
        }
        // Browsers correct these forms, but here they are errors.
        let authority = text.get("https:".len()..).and_then(|rest| rest.strip_prefix("//")).unwrap_or_default();
        if authority.starts_with('/') || text.contains(|c: char| c.is_control() || c == '\\') || authority.is_empty() {
            return Err(refuse("must be an absolute URL"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(refuse("must name a host"));
        }
        if authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
            return Err(refuse("must not contain a user name or a password"));
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriptions(Vec<EventType>);

impl Subscriptions {
    /// Parses the names of event types in their order, without duplicates.
    pub fn parse<S: AsRef<str>>(names: &[S], limits: &Limits) -> Result<Self, Invalid> {
        let max = limits.webhook_events;
        if names.is_empty() || names.len() > max {
            return Err(Invalid::field("events", format!("must have 1 to {max} entries")));
        }
        let mut types = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let known = EventType::SUBSCRIBABLE.iter().copied().find(|known| known.name() == name.as_ref());
            let known = known.ok_or_else(|| {
                let all = EventType::subscribable_names().join(", ");
                Invalid::field(format!("events.{i}"), format!("must be one of {all}"))
            })?;
            if !types.contains(&known) {
                types.push(known);
            }
        }
        Ok(Self(types))
    }

    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|event| event.name().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_must_be_https_without_credentials() {
        for good in
            ["https://example.com", "https://example.com:8443/a?b=c", "https://bücher.example/", "https://10.0.0.1/"]
        {
            assert_eq!(WebhookUrl::parse(good).map(|url| url.0), Ok(good.to_owned()));
        }
        let long = format!("https://example.com/{}", "a".repeat(4_000));
        for bad in [
            "",
            "example.com",
            "/hook",
            "http://example.com",
            "ftp://example.com",
            "https://",
            "https://u@example.com",
            "https://u:p@example.com",
            "https://exa mple.com",
            "https:example.com",
            "https:/example.com",
            "https:///example.com",
            "https:\\\\example.com",
            "https://exa\tmple.com",
            "ht\ntps://example.com",
            "https://@example.com",
            &long,
        ] {
            assert!(WebhookUrl::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_subscribable_types_are_accepted() {
        let parse = |names: &[&str]| Subscriptions::parse(names, &Limits::default()).map(|all| all.names());
        assert_eq!(parse(&["session.failed", "session.failed"]), Ok(vec!["session.failed".to_owned()]));
        let both = ["session.failed", "session.completed"];
        assert_eq!(parse(&both), Ok(both.map(str::to_owned).to_vec()));
        assert!(parse(&["session.failed"; 10]).is_ok());
        assert!(parse(&["session.failed"; 11]).is_err());
        assert!(parse(&[]).is_err());
        for unknown in ["test.ping", "*", "session.exploded", "SESSION.FAILED", ""] {
            assert!(parse(&[unknown]).is_err(), "{unknown}");
        }
    }
}
