//! Texts of the mails. They contain no text of a customer, not even a name: a person who signs up with another person's address
//! must not be able to send that person text through us. Our own texts are ASCII, so that links are not encoded; staff texts
//! about incidents may not be.

mod payments;

use std::borrow::Cow;
use std::time::Duration;

use askama::Template as Render;
use kitfleet_domain::byok::Provider;
use kitfleet_domain::emails::{Attempt, SIGNUP, Template};
use kitfleet_domain::status::incidents::IncidentMail;
use kitfleet_domain::status::notices::Kind;
use kitfleet_domain::tokens::Token;
use kitfleet_types::ids::{SessionId, WebhookId};
use kitfleet_types::tiers::Tier;

pub(super) struct Letter<'a> {
    pub(super) subject: Cow<'static, str>,
    heading: Cow<'static, str>,
    paragraphs: Vec<String>,
    link: Option<Link>,
    /// Smaller, below the link.
    notes: Vec<String>,
    pub(super) unsubscribe: Option<String>,
    base_url: &'a str,
}

struct Link {
    label: &'static str,
    url: String,
}

#[derive(Render)]
#[template(path = "emails/letter.html")]
pub(super) struct Html<'a> {
    pub(super) letter: &'a Letter<'a>,
}

#[derive(Render)]
#[template(path = "emails/letter.txt")]
pub(super) struct Text<'a> {
    pub(super) letter: &'a Letter<'a>,
}

impl<'a> Letter<'a> {
    pub(super) fn write(attempt: &Attempt, base_url: &'a str, token: Option<&Token>) -> Self {
        let (subject, heading) = titles(attempt.template);
        let (subject, heading) = (subject.into(), heading.into());
        let mut notes = Vec::new();
        let link = link(attempt.template).zip(token).map(|((label, path), token)| {
            notes.push(format!("The link is valid for {} and works once.", time_left(attempt)));
            let unexpected = match attempt.template {
                Template::TeamInvite => "If you do not expect an invitation",
                _ => "If you did not request this",
            };
            notes.push(format!("{unexpected}, ignore this mail. Nothing happens unless the link is used."));
            Link { label, url: format!("{base_url}/{path}?token={}", token.reveal()) }
        });
        if let Some(event_type) = attempt.template.event_type() {
            notes.push(format!(
                "To stop mails of this kind, opt out of {} in the e-mail preferences of your account.",
                event_type.name()
            ));
        }
        Self { subject, heading, paragraphs: paragraphs(attempt, base_url), link, notes, unsubscribe: None, base_url }
    }

    pub(super) fn of_incident(template: Template, incident_mail: &IncidentMail, base_url: &'a str) -> Self {
        let kind = match template {
            Template::IncidentPosted => Kind::Posted,
            Template::IncidentUpdated => Kind::Updated,
            _ => Kind::Resolved,
        };
        Self {
            subject: incident_mail.subject(kind).into(),
            heading: incident_mail.title.clone().into(),
            paragraphs: incident_mail.paragraphs(base_url),
            link: None,
            notes: vec!["You receive this mail because this address is subscribed to Kitfleet incidents.".to_owned()],
            unsubscribe: None,
            base_url,
        }
    }

    pub(super) fn can_be_ended_at(&mut self, url: String) {
        self.unsubscribe = Some(url);
    }
}

fn titles(template: Template) -> (&'static str, &'static str) {
    match template {
        Template::VerifyEmail => ("Verify your e-mail address", "Verify your e-mail address"),
        Template::MagicLink => ("Your sign-in link", "Sign in to Kitfleet"),
        Template::ResetPassword => ("Reset your password", "Choose a new password"),
        Template::ConfirmSignIn => ("Confirm a new sign-in method", "Confirm a new sign-in method"),
        Template::ChangeEmail => ("Confirm your new e-mail address", "Confirm your new e-mail address"),
        Template::EmailHasAccount => ("This address has an account already", "This address has an account already"),
        Template::EmailChanged => ("Your e-mail address was changed", "Your e-mail address was changed"),
        Template::Welcome => ("Welcome to Kitfleet", "Welcome to Kitfleet"),
        Template::SessionSuccessFirst => ("Your first session is ready", "Your first session is ready"),
        Template::SessionFailedFirst => ("Your first session failed", "Your first session failed"),
        Template::TierChanged => ("Your tier has changed", "Your tier has changed"),
        Template::TeamInvite => ("You are invited to a team", "Join a team on Kitfleet"),
        Template::WebhookSecretReminder => ("A webhook secret should be rotated", "Rotate a webhook secret"),
        Template::WebhookSecretGraceExpiring => ("An old webhook secret expires soon", "An old webhook secret expires"),
        Template::ByokKeyReminder => ("A model provider key should be rotated", "Rotate a model provider key"),
        Template::PaymentReceipt => ("Receipt for your payment", "Thank you for your payment"),
        Template::PaymentFailed => ("Your payment failed", "Your payment failed"),
        Template::RenewalReminder => ("Your subscription renews in 7 days", "Your subscription renews soon"),
        Template::StatusConfirm => ("Confirm your subscription", "Subscribe to incidents"),
        Template::StatusSubscribed => ("You are subscribed to incidents", "You are subscribed"),
        Template::IncidentPosted | Template::IncidentUpdated | Template::IncidentResolved => {
            ("There is an incident", "There is an incident")
        }
    }
}

fn link(template: Template) -> Option<(&'static str, &'static str)> {
    match template {
        Template::VerifyEmail => Some(("Verify this address", "verify-email")),
        Template::MagicLink => Some(("Sign in", "magic-link")),
        Template::ResetPassword => Some(("Choose a new password", "reset-password")),
        Template::ConfirmSignIn => Some(("Confirm", "confirm-sign-in")),
        Template::ChangeEmail => Some(("Confirm this address", "confirm-email")),
        Template::TeamInvite => Some(("See the invitation", "team/accept")),
        Template::StatusConfirm => Some(("Subscribe", "status/confirm")),
        Template::EmailHasAccount
        | Template::EmailChanged
        | Template::Welcome
        | Template::SessionSuccessFirst
        | Template::SessionFailedFirst
        | Template::TierChanged
        | Template::WebhookSecretReminder
        | Template::WebhookSecretGraceExpiring
        | Template::ByokKeyReminder
        | Template::PaymentReceipt
        | Template::PaymentFailed
        | Template::RenewalReminder
        | Template::StatusSubscribed
        | Template::IncidentPosted
        | Template::IncidentUpdated
        | Template::IncidentResolved => None,
    }
}

fn paragraphs(attempt: &Attempt, base_url: &str) -> Vec<String> {
    let say = |sentences: &[&str]| sentences.iter().map(ToString::to_string).collect();
    match attempt.template {
        Template::VerifyEmail if attempt.details[SIGNUP] == true => {
            say(&["You, or another person, signed up to Kitfleet with this e-mail address.",
                "Follow the link to verify that the address is yours."])
        }
        Template::VerifyEmail => say(&["You, or another person, signed up to Kitfleet with this e-mail address and requested another \
             link.",
            "Follow the link to verify that the address is yours and sign in. Another person may have chosen the password. \
             The password is therefore removed, and you choose a new one, unless this link was requested from the network of the \
             sign-up and soon after it."]),
        Template::MagicLink => say(&["You, or another person, requested a link to sign in to Kitfleet with this e-mail address.",
            "Follow the link on the device on which you want to sign in."]),
        Template::ResetPassword => say(&["You, or another person, requested a password reset for the Kitfleet account with this \
             e-mail address.",
            "Follow the link to choose a new password. The current password works until then."]),
        Template::ConfirmSignIn => {
            let plain = |member: &str| attempt.details[member].as_str().filter(|name| is_plain(name));
            let provider = plain("provider_name").or_else(|| plain("provider"));
            let with = provider.map_or_else(|| "an identity provider".to_owned(), |name| format!("the identity provider {name}"));
            vec![
                format!("You, or another person, tried to sign in to your Kitfleet account with {with}."),
                "Follow the link to sign in now and to allow this sign-in method in the future.".to_owned(),
            ]
        }
        Template::ChangeEmail => say(&["You, or another person, requested to use this e-mail address for a Kitfleet account.",
            "Follow the link to confirm that the address is yours. The account keeps its current address until then."]),
        Template::EmailHasAccount => say(&["You, or another person, requested to use this e-mail address for another Kitfleet account.",
            "The address belongs to your account already, so nothing was changed."]),
        Template::EmailChanged => say(&["The e-mail address of your Kitfleet account was changed to another address, which was confirmed. \
             This address can no longer sign in.",
            "If you did not do this, contact the operator of this service."]),
        Template::Welcome => vec![
            "Your e-mail address is verified, and your account is ready.".to_owned(),
            format!("The API documentation is at {base_url}/docs."),
        ],
        Template::SessionSuccessFirst => vec![
            format!("The first session of your account{} is ready.", session(attempt)),
            format!("The API documentation at {base_url}/docs lists all operations on a session."),
        ],
        Template::SessionFailedFirst => vec![
            format!("A session of your account{} has failed for the first time.", session(attempt)),
            "A failed session does not count against your limits; create another one to continue. If that fails too, contact the \
             operator of this service and include the session ID."
                .to_owned(),
        ],
        Template::TeamInvite => say(&["A Kitfleet user has invited you to join their team.",
            "Follow the link and sign in to the Kitfleet account with this e-mail address. If you have none, sign up first."]),
        Template::TierChanged => vec![
            format!("Your account has changed{}.", tiers(attempt).unwrap_or_default()),
            "Live sessions are not affected. The limits of the new tier apply to new sessions.".to_owned(),
        ],
        Template::WebhookSecretReminder => vec![
            format!("The signing secret of your webhook endpoint{} is {}.", endpoint(attempt), age(attempt)),
            "A secret should be rotated before it is 90 days old. After a rotation, deliveries are signed with both secrets for a \
             limited time, so that no delivery is lost while you replace the old one."
                .to_owned(),
        ],
        Template::WebhookSecretGraceExpiring => vec![
            format!("The signing secret of your webhook endpoint{} was rotated. The old secret keeps signing for another {}.",
                endpoint(attempt), time_left(attempt)),
            "Configure the new secret in your receiver before then. If you and your team did not rotate it, rotate it again and \
             review your API keys."
                .to_owned(),
        ],
        Template::ByokKeyReminder => vec![
            format!("Your key{} that Kitfleet uses is {}.", provider_phrase(attempt), age(attempt)),
            "Keys should be replaced regularly. Create a new key at the provider, replace the key in your Kitfleet account, and \
             then revoke the old key at the provider. If you no longer need the key, remove it from your account."
                .to_owned(),
        ],
        Template::PaymentReceipt | Template::PaymentFailed | Template::RenewalReminder => payments::paragraphs(attempt),
        Template::StatusConfirm => say(&["You, or another person, requested mails to this address about incidents at \
             Kitfleet.",
            "Follow the link to subscribe."]),
        Template::StatusSubscribed => vec![
            "This address now receives mails about incidents: when one is posted, with updates as they happen, and when it is resolved."
                .to_owned(),
            format!("Service status: {base_url}/status"),
        ],
        Template::IncidentPosted | Template::IncidentUpdated | Template::IncidentResolved => {
            vec![format!("Service status: {base_url}/status")]
        }
    }
}

/// A name that is not plain needs escaping.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_ ".contains(&b))
}

fn session(attempt: &Attempt) -> String {
    let id = attempt.details["session_id"].as_str().and_then(|id| id.parse::<SessionId>().ok());
    id.map(|id| format!(", {id},")).unwrap_or_default()
}

fn endpoint(attempt: &Attempt) -> String {
    let id = attempt.details["endpoint_id"].as_str().and_then(|id| id.parse::<WebhookId>().ok());
    id.map(|id| format!(", {id},")).unwrap_or_default()
}

fn provider_phrase(attempt: &Attempt) -> String {
    let named = |provider: &&Provider| attempt.details["provider"] == provider.name();
    Provider::ALL.iter().find(named).map(|provider| format!(" at {}", provider.title())).unwrap_or_default()
}

fn age(attempt: &Attempt) -> String {
    let seconds = attempt.details["age_seconds"].as_u64();
    seconds.map_or_else(|| "old".to_owned(), |seconds| format!("{} old", format_duration(Duration::from_secs(seconds))))
}

/// Until the mail and its link expire.
fn time_left(attempt: &Attempt) -> String {
    format_duration((attempt.expires_at.0 - attempt.started_at.0).to_std().unwrap_or_default())
}

fn tiers(attempt: &Attempt) -> Option<String> {
    let tier = |name: &str| attempt.details[name].as_str()?.parse::<Tier>().ok();
    Some(format!(" from the {} tier to the {} tier", tier("from")?, tier("to")?))
}

fn format_duration(time: Duration) -> String {
    // Rounds to the nearest unit, because an attempt begins a moment after the mail was requested.
    let seconds = (time.as_millis() + 500) / 1000;
    let (count, unit) = match seconds {
        0..60 => (seconds.max(1), "second"),
        60..7_200 => ((seconds + 30) / 60, "minute"),
        7_200..172_800 => ((seconds + 1_800) / 3_600, "hour"),
        _ => ((seconds + 43_200) / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_for_people() {
        for (millis, words) in [
            (0, "1 second"),
            (1_999, "2 seconds"),
            (60_000, "1 minute"),
            (899_990, "15 minutes"),
            (1_799_950, "30 minutes"),
            (3_599_400, "60 minutes"),
            (86_399_000, "24 hours"),
            (604_800_000, "7 days"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), words);
        }
    }

    #[test]
    fn mail_contains_only_plain_names() {
        assert!(is_plain("acme-sso_2") && is_plain("Acme Login"));
        for bad in ["", "<b>", "a\r\nBcc: x", "caf\u{e9}", &"x".repeat(41)] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}
