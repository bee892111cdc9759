//! Mails to subscribers of the status page (contract: status 15 to 22). Each mail has an unsubscribe link.

use kitfleet_domain::emails::{self, Attempt, RepeatPolicy, Template};
use kitfleet_domain::status::incidents;
use kitfleet_domain::status::subscribers::{self, Question, Unsubscriber};
use kitfleet_types::ids::SubscriberId;
use sqlx::PgConnection;

use super::Mailer;
use super::letter::Letter;
use super::mail::Mail;

/// `None` when the mail is not needed any more or not due yet; either is recorded.
pub(super) async fn compose(
    conn: &mut PgConnection,
    mailer: &Mailer,
    attempt: &Attempt,
    subscriber: SubscriberId,
) -> sqlx::Result<Option<Mail>> {
    let in_time = attempt.expires_at > attempt.started_at;
    let is_new = attempt.template == Template::IncidentUpdated;
    let rest = if in_time && is_new {
        emails::check_repeat(&mut *conn, attempt, mailer.update_interval).await?
    } else {
        RepeatPolicy::None
    };
    let mail = if rest == RepeatPolicy::Waits {
        return Ok(None);
    } else if !in_time || rest == RepeatPolicy::Superseded {
        None
    } else if attempt.template == Template::StatusConfirm {
        confirmation_mail(&mut *conn, mailer, attempt, subscriber).await?
    } else {
        incident_mail(&mut *conn, mailer, attempt, subscriber).await?
    };
    if mail.is_none() {
        emails::discard(conn, attempt).await?;
    }
    Ok(mail)
}

async fn confirmation_mail(
    conn: &mut PgConnection,
    mailer: &Mailer,
    attempt: &Attempt,
    subscriber: SubscriberId,
) -> sqlx::Result<Option<Mail>> {
    let question = subscribers::confirmation(conn, subscriber, attempt.id).await?;
    Ok(question.map(|Question { email, token }| {
        let letter = Letter::write(attempt, &mailer.base_url, Some(&token));
        Mail::new(attempt, email, &letter)
    }))
}

async fn incident_mail(
    conn: &mut PgConnection,
    mailer: &Mailer,
    attempt: &Attempt,
    subscriber: SubscriberId,
) -> sqlx::Result<Option<Mail>> {
    let Some(email) = subscribers::address_of(&mut *conn, subscriber).await? else { return Ok(None) };
    let mut letter = match attempt.details["update_id"].as_str().and_then(|id| id.parse().ok()) {
        None => Letter::write(attempt, &mailer.base_url, None),
        Some(update) => {
            let Some(incident_mail) = incidents::find_mail(&mut *conn, update).await? else { return Ok(None) };
            // An update that was delayed could arrive after the resolution.
            if attempt.template == Template::IncidentUpdated && incident_mail.over {
                return Ok(None);
            }
            Letter::of_incident(attempt.template, &incident_mail, &mailer.base_url)
        }
    };
    let fetch = async || Unsubscriber::fetch(&mut *conn).await;
    let token = mailer.unsubscriber.get_or_try_init(fetch).await?.sign(subscriber);
    letter.can_be_ended_at(format!("{}/status/unsubscribe?token={token}", mailer.base_url));
    Ok(Some(Mail::new(attempt, email, &letter)))
}
