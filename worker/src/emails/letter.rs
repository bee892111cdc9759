//! What mails say. Nothing in them was written by a customer, not even a name: whoever signs up with somebody else's
//! address must not have us tell that person anything of theirs. What we write is ASCII, so that links stand unbroken; what staff
//! write of an incident need not be.

mod payments;

use std::borrow::Cow;
use std::time::Duration;

use askama::Template as Render;
use kitfleet_domain::accounts::Tier;
use kitfleet_domain::byok::Provider;
use kitfleet_domain::emails::{Attempt, SIGNUP, Template};
use kitfleet_domain::ids::{SessionId, WebhookId};
use kitfleet_domain::status::incidents::Told;
use kitfleet_domain::tokens::Token;

/// A mail's words.
pub(super) struct Letter<'a> {
    pub(super) subject: Cow<'static, str>,
    heading: Cow<'static, str>,
    paragraphs: Vec<String>,
    link: Option<Link>,
    /// Below the link, smaller.
    notes: Vec<String>,
    /// Where its reader asks for no more of its kind.
    pub(super) unsubscribe: Option<String>,
    /// Where the service is.
    base_url: &'a str,
}

/// What a reader is to follow.
struct Link {
    label: &'static str,
    url: String,
}

/// A letter for those who see it drawn.
#[derive(Render)]
#[template(path = "emails/letter.html")]
pub(super) struct Html<'a> {
    pub(super) letter: &'a Letter<'a>,
}

/// A letter for everybody else.
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
            notes.push(format!("The link is good for {}, and once.", left(attempt)));
            let unexpected = match attempt.template {
                Template::TeamInvite => "If you expect no invitation",
                _ => "If this was not you",
            };
            notes.push(format!("{unexpected}, ignore this mail: nothing happens unless the link is used."));
            Link { label, url: format!("{base_url}/{path}?token={}", token.reveal()) }
        });
        if let Some(event_type) = attempt.template.event_type() {
            notes.push(format!(
                "To get no more mails of this kind, opt out of {} in the account's e-mail preferences.",
                event_type.name()
            ));
        }
        Self { subject, heading, paragraphs: paragraphs(attempt, base_url), link, notes, unsubscribe: None, base_url }
    }

    /// What staff told of an incident.
    pub(super) fn of_incident(template: Template, told: &Told, base_url: &'a str) -> Self {
        let Told { title, impact, components, status, message, over: _ } = told;
        let what = match template {
            Template::IncidentPosted => "Incident",
            Template::IncidentUpdated => "Update",
            _ => "Resolved",
        };
        let affected =
            if components.is_empty() { String::new() } else { format!(" Affected: {}.", components.join(", ")) };
        let mut paragraphs = vec![format!("Status: {}. Impact: {}.{affected}", status.name(), impact.name())];
        paragraphs.extend(message.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        paragraphs.push(format!("How everything is now: {base_url}/status"));
        Self {
            subject: format!("[Kitfleet] {what}: {title}").into(),
            heading: title.clone().into(),
            paragraphs,
            link: None,
            notes: vec!["You get this mail because this address is subscribed to incidents of Kitfleet.".to_owned()],
            unsubscribe: None,
            base_url,
        }
    }

    /// Says how to get no more of this kind.
    pub(super) fn can_be_ended_at(&mut self, url: String) {
        self.unsubscribe = Some(url);
    }
}

fn titles(template: Template) -> (&'static str, &'static str) {
    match template {
        Template::VerifyEmail => ("Verify your e-mail address", "Verify your e-mail address"),
        Template::MagicLink => ("Your sign-in link", "Sign in to Kitfleet"),
        Template::ResetPassword => ("Reset your password", "Choose a new password"),
        Template::ConfirmSignIn => ("Confirm a new way to sign in", "Confirm a new way to sign in"),
        Template::Welcome => ("Welcome to Kitfleet", "Welcome to Kitfleet"),
        Template::SessionSuccessFirst => ("Your first session is up", "Your first session is up"),
        Template::SessionFailedFirst => ("Your first session failed", "Your first session failed"),
        Template::TierChanged => ("Your tier has changed", "Your tier has changed"),
        Template::TeamInvite => ("You are invited to a team", "Join a team on Kitfleet"),
        Template::WebhookSecretReminder => ("A webhook secret should be rotated", "Rotate a webhook secret"),
        Template::WebhookSecretGraceExpiring => ("An old webhook secret expires soon", "An old webhook secret expires"),
        Template::ByokKeyReminder => ("A model provider's key should be rotated", "Rotate a model provider's key"),
        Template::PaymentReceipt => ("Receipt for your payment", "Thank you for your payment"),
        Template::PaymentFailed => ("Your payment failed", "Your payment failed"),
        Template::RenewalReminder => ("Your subscription renews in 7 days", "Your subscription renews soon"),
        Template::StatusConfirm => ("Confirm your subscription", "Be told of incidents"),
        Template::StatusSubscribed => ("You are subscribed to incidents", "You are subscribed"),
        Template::IncidentPosted | Template::IncidentUpdated | Template::IncidentResolved => {
            ("There is an incident", "There is an incident")
        }
    }
}

/// The label and the path of a template's link.
fn link(template: Template) -> Option<(&'static str, &'static str)> {
    match template {
        Template::VerifyEmail => Some(("Verify this address", "verify-email")),
        Template::MagicLink => Some(("Sign in", "magic-link")),
        Template::ResetPassword => Some(("Choose a new password", "reset-password")),
        Template::ConfirmSignIn => Some(("Confirm", "confirm-sign-in")),
        Template::TeamInvite => Some(("See the invitation", "team/accept")),
        Template::StatusConfirm => Some(("Subscribe", "status/confirm")),
        Template::Welcome
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
            say(&["Somebody, hopefully you, signed up to Kitfleet with this e-mail address.",
                "Follow the link to show that it is yours."])
        }
        Template::VerifyEmail => say(&["Somebody, hopefully you, signed up to Kitfleet with this e-mail address, and asked for another \
             link.",
            "Follow it to show that the address is yours. It signs you in. Somebody else may have chosen the password of the signup: \
             unless this link was requested from the same network, soon after the signup, that password is removed and you choose \
             a new one."]),
        Template::MagicLink => say(&["Somebody, hopefully you, asked to sign in to Kitfleet with this e-mail address.",
            "Follow the link on the device on which you want to be signed in."]),
        Template::ResetPassword => say(&["Somebody, hopefully you, asked to reset the password of the Kitfleet account with this \
             e-mail address.",
            "Follow the link to choose a new one. Until then the present password stays."]),
        Template::ConfirmSignIn => {
            let plain = |member: &str| attempt.details[member].as_str().filter(|name| is_plain(name));
            let provider = plain("provider_name").or_else(|| plain("provider"));
            let with = provider.map_or_else(|| "an identity provider".to_owned(), |name| format!("the identity provider {name}"));
            vec![
                format!("Somebody, hopefully you, wants to sign in to your Kitfleet account with {with}."),
                "Follow the link to allow that, now and in the future.".to_owned(),
            ]
        }
        Template::Welcome => vec![
            "Your e-mail address is verified, and your account is ready.".to_owned(),
            format!("The documentation is at {base_url}/docs, and shows every request you can make."),
        ],
        Template::SessionSuccessFirst => vec![
            format!("The first session of your account{} is ready to be driven.", session(attempt)),
            format!("What you can do with it is at {base_url}/docs."),
        ],
        Template::SessionFailedFirst => vec![
            format!("For the first time, a session of your account{} has failed.", session(attempt)),
            "A failed session takes none of your slots; create another to go on. Should that fail too, tell whoever runs this \
             service, with the session's id."
                .to_owned(),
        ],
        Template::TeamInvite => say(&["Somebody who uses Kitfleet invites you to their team.",
            "Follow the link and sign in to the Kitfleet account with this e-mail address, or sign up with it first."]),
        Template::TierChanged => vec![
            format!("Your account has moved{}.", tiers(attempt).unwrap_or_default()),
            "Sessions that are live stay as they are; new ones count against the new tier's limits.".to_owned(),
        ],
        Template::WebhookSecretReminder => vec![
            format!("The signing secret of your webhook endpoint{} is {}.", endpoint(attempt), age(attempt)),
            "A secret should be rotated before it is 90 days old. Deliveries are signed with both secrets for a while after a \
             rotation, so that nothing is lost while you replace the old one."
                .to_owned(),
        ],
        Template::WebhookSecretGraceExpiring => vec![
            format!("The signing secret of your webhook endpoint{} was rotated. The old one signs for another {}.",
                endpoint(attempt), left(attempt)),
            "Whatever verifies deliveries must know the new secret by then. If nobody of yours rotated it, rotate it again, and \
             look through your API keys."
                .to_owned(),
        ],
        Template::ByokKeyReminder => vec![
            format!("The key{} that you let Kitfleet use is {}.", at_provider(attempt), age(attempt)),
            "A key should be replaced from time to time: make another at the provider, put it in the place of this one, and only \
             then revoke this one there. If you do not need it any more, remove it from your account."
                .to_owned(),
        ],
        Template::PaymentReceipt | Template::PaymentFailed | Template::RenewalReminder => payments::paragraphs(attempt),
        Template::StatusConfirm => say(&["Somebody, hopefully you, wants this e-mail address to be told when something goes wrong at \
             Kitfleet.",
            "Follow the link to subscribe."]),
        Template::StatusSubscribed => vec![
            "From now on this address is told of incidents: when there is one, now and then what is new, and when it is over."
                .to_owned(),
            format!("How everything is now: {base_url}/status"),
        ],
        Template::IncidentPosted | Template::IncidentUpdated | Template::IncidentResolved => {
            vec![format!("How everything is now: {base_url}/status")]
        }
    }
}

/// Whether a name can stand in a mail as it is.
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

fn at_provider(attempt: &Attempt) -> String {
    let named = |provider: &&Provider| attempt.details["provider"] == provider.name();
    Provider::ALL.iter().find(named).map(|provider| format!(" at {}", provider.title())).unwrap_or_default()
}

fn age(attempt: &Attempt) -> String {
    let seconds = attempt.details["age_seconds"].as_u64();
    seconds.map_or_else(|| "old".to_owned(), |seconds| format!("{} old", in_words(Duration::from_secs(seconds))))
}

/// Until the mail, and a link in it, is worth nothing.
fn left(attempt: &Attempt) -> String {
    in_words((attempt.expires_at.0 - attempt.started_at.0).to_std().unwrap_or_default())
}

fn tiers(attempt: &Attempt) -> Option<String> {
    let tier = |name: &str| attempt.details[name].as_str()?.parse::<Tier>().ok();
    Some(format!(" from the tier {} to the tier {}", tier("from")?, tier("to")?))
}

fn in_words(time: Duration) -> String {
    // To the nearest unit: an attempt begins a moment after its mail was asked for.
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
    fn times_are_told_as_people_tell_them() {
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
            assert_eq!(in_words(Duration::from_millis(millis)), words);
        }
    }

    #[test]
    fn only_plain_names_stand_in_a_mail() {
        assert!(is_plain("acme-sso_2") && is_plain("Acme Login"));
        for bad in ["", "<b>", "a\r\nBcc: x", "caf\u{e9}", &"x".repeat(41)] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}
