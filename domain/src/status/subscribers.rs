//! Who is mailed of incidents (contract: status 15 to 18): addresses of their own, that need no account.
//!
//! An address is asked first whether it is willing, by a link. Whoever has a mail of ours can end the subscription by the link in
//! it, which is signed and not stored: it must still work in a mail of years ago. A subscription that ended leaves no row behind.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::database;
use crate::email_addresses::EmailAddress;
use crate::ids::{EmailId, SubscriberId};
use crate::tokens::{self, Token};

/// An address is asked so often at most, whoever asks for it.
const ASKED_EVERY: Duration = Duration::from_mins(10);

/// Notes that somebody wants this address to be told, for whom it is to be asked within `ttl`. Who calls this has the mail sent. It
/// does the same whether the address is known or not.
///
/// # Errors
/// When the database fails.
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

/// An address that is to be asked, and the token of its link.
#[derive(Debug)]
pub struct Question {
    /// Where it goes.
    pub email: String,
    /// The one token that is good from now on.
    pub token: Token,
}

/// Makes the link by which an address confirms, for this mail. `None` when it has confirmed, was asked by another mail a moment ago,
/// or is gone.
///
/// # Errors
/// When the database fails.
pub async fn ask(conn: &mut PgConnection, id: SubscriberId, mail: EmailId) -> sqlx::Result<Option<Question>> {
    let token = Token::generate();
    let email = sqlx::query_scalar!(
        "update status_subscribers set token_hash = $2, asked_by = $3, asked_at = now()
         where id = $1 and confirmed_at is null and confirm_until > now()
           and (asked_at is null or asked_by = $3 or asked_at < now() - make_interval(secs => $4))
         returning email",
        id as _,
        token.hash(),
        mail as _,
        ASKED_EVERY.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(email.map(|email| Question { email, token }))
}

/// Confirms by the token of a link, which is used up. Answers who that was; `None` when the token is worthless. Of several callers
/// one succeeds.
///
/// # Errors
/// When the database fails.
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

/// Where a subscriber's mails go. `None` when they have not confirmed, or want none any more.
///
/// # Errors
/// When the database fails.
pub async fn address_of(conn: &mut PgConnection, id: SubscriberId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select email from status_subscribers where id = $1 and confirmed_at is not null", id as _)
        .fetch_optional(conn)
        .await
}

/// Ends a subscription, with all that waits to be mailed. Once more changes nothing.
///
/// # Errors
/// When the database fails.
pub async fn unsubscribe(conn: &mut PgConnection, id: SubscriberId) -> sqlx::Result<()> {
    sqlx::query!("delete from status_subscribers where id = $1", id as _).execute(conn).await?;
    Ok(())
}

/// Deletes addresses that did not confirm within a day after their link had expired, up to `limit`. Answers how many.
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

/// Signs and reads the tokens by which subscriptions end. Every process has the same one.
#[derive(Clone)]
pub struct Unsubscriber {
    key: Vec<u8>,
}

impl Unsubscriber {
    /// # Errors
    /// When the database fails.
    pub async fn fetch(conn: &mut PgConnection) -> sqlx::Result<Self> {
        Ok(Self { key: database::server_secret(conn, "unsubscribe").await? })
    }

    /// A subscriber's token.
    #[must_use]
    pub fn sign(&self, id: SubscriberId) -> String {
        let tag = self.mac(id.as_uuid()).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([id.as_uuid().as_bytes().as_slice(), &tag].concat())
    }

    /// Whose token it is, if it is one. They may be no subscriber any more.
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
    fn a_token_ends_the_subscription_of_its_reader_alone() {
        let (ours, theirs) = (Unsubscriber { key: vec![7; 32] }, Unsubscriber { key: vec![8; 32] });
        let id = SubscriberId::generate();
        let token = ours.sign(id);
        assert_eq!(ours.read(&token), Some(id));
        assert_eq!(theirs.read(&token), None);
        for broken in ["", "!", &token[1..], &format!("{token}A"), &ours.sign(SubscriberId::generate())[..22]] {
            assert_eq!(ours.read(broken), None, "{broken}");
        }
    }
}
