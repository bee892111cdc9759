//! Subscribers to incident mails (contract: status 15 to 18): e-mail addresses that need no account.
//!
//! An address must confirm the subscription by a link. Every mail has a link that ends the subscription: signed and not
//! stored, because it must still work in a mail that is years old. An ended subscription leaves no row.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use kitfleet_types::ids::{EmailId, SubscriberId};
use sha2::Sha256;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database;
use crate::email_addresses::EmailAddress;
use crate::tokens::{self, Token};

/// Minimum interval between confirmation mails to one address, regardless of the number of requests.
const CONFIRMATION_INTERVAL: Duration = Duration::from_mins(10);

/// Must be confirmed within `ttl`. The caller must queue the mail. Takes the same steps whether or not the address is
/// known.
pub async fn subscribe(conn: &mut PgConnection, address: &EmailAddress, ttl: Duration) -> sqlx::Result<SubscriberId> {
    sqlx::query_scalar!(
        r#"insert into status_subscribers (id, email, email_key, confirm_until)
           values ($1, $2, $3, now() + make_interval(secs => $4))
           on conflict (email_key) do update set confirm_until = excluded.confirm_until
           returning id as "id: SubscriberId""#,
        SubscriberId::generate() as _,
        address.as_str(),
        address.key(),
        ttl.as_secs_f64(),
    )
    .fetch_one(conn)
    .await
}

#[derive(Debug)]
pub struct Question {
    pub email: String,
    /// Earlier tokens no longer work.
    pub token: Token,
}

/// `None` when the address has already confirmed, another mail was sent within 10 min, or the row no longer exists.
pub async fn confirmation(conn: &mut PgConnection, id: SubscriberId, mail: EmailId) -> sqlx::Result<Option<Question>> {
    let token = Token::generate();
    let email = sqlx::query_scalar!(
        "update status_subscribers set token_hash = $2, asked_by = $3, asked_at = now()
         where id = $1 and confirmed_at is null and confirm_until > now()
           and (asked_at is null or asked_by = $3 or asked_at < now() - make_interval(secs => $4))
         returning email",
        id as _,
        token.hash(),
        mail as _,
        CONFIRMATION_INTERVAL.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(email.map(|email| Question { email, token }))
}

/// `None` when the token is invalid. It works once, also for concurrent callers.
pub async fn confirm(conn: &mut PgConnection, token: &str) -> sqlx::Result<Option<SubscriberId>> {
    sqlx::query_scalar!(
        r#"update status_subscribers set confirmed_at = clock_timestamp(), token_hash = null, asked_by = null, asked_at = null
           where token_hash = $1 and confirm_until > now() and confirmed_at is null
           returning id as "id: SubscriberId""#,
        tokens::hash(token),
    )
    .fetch_optional(conn)
    .await
}

/// `None` when the subscriber has not confirmed or has unsubscribed.
pub async fn address_of(conn: &mut PgConnection, id: SubscriberId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select email from status_subscribers where id = $1 and confirmed_at is not null", id as _)
        .fetch_optional(conn)
        .await
}

/// Also deletes queued mails. A second call changes nothing.
pub async fn unsubscribe(conn: &mut PgConnection, id: SubscriberId) -> sqlx::Result<()> {
    sqlx::query!("delete from status_subscribers where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// They did not confirm within a day after their link expired.
pub(super) async fn purge_unconfirmed(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from status_subscribers where id = any(array(
             select id from status_subscribers
             where confirmed_at is null and confirm_until < now() - interval '1 day' limit $1 for update skip locked))",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// Subscribers that receive mails.
pub async fn count(conn: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(r#"select count(*) as "subscribers!" from status_subscribers where confirmed_at is not null"#)
        .fetch_one(conn)
        .await
}

/// All processes use the same key.
#[derive(Clone)]
pub struct Unsubscriber {
    key: Vec<u8>,
}

impl Unsubscriber {
    pub async fn fetch(conn: &mut PgConnection) -> sqlx::Result<Self> {
        Ok(Self { key: database::server_secret(conn, "unsubscribe").await? })
    }

    #[must_use]
    pub fn sign(&self, id: SubscriberId) -> String {
        let tag = self.mac(id.as_uuid()).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([id.as_uuid().as_bytes().as_slice(), &tag].concat())
    }

    /// The subscription may have ended.
    #[must_use]
    pub fn read(&self, token: &str) -> Option<SubscriberId> {
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (id, tag) = bytes.split_at_checked(16)?;
        let id = Uuid::from_slice(id).ok()?;
        self.mac(id).verify_slice(tag).ok()?;
        Some(id.into())
    }

    fn mac(&self, id: Uuid) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(id.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract: status 17.
    #[test]
    fn token_identifies_its_subscriber_and_cannot_be_forged() {
        let (signer, other) = (Unsubscriber { key: vec![7; 32] }, Unsubscriber { key: vec![8; 32] });
        let id = SubscriberId::generate();
        let token = signer.sign(id);
        assert_eq!(signer.read(&token), Some(id));
        assert_eq!(other.read(&token), None);
        for broken in ["", "!", &token[1..], &format!("{token}A"), &signer.sign(SubscriberId::generate())[..22]] {
            assert_eq!(signer.read(broken), None, "{broken}");
        }
    }
}
