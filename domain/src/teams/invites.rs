//! Invitations to a team (contract: teams 3 to 6), which are pending, accepted or expired.
//!
//! An owner has at most one pending invite for an address. The token is generated when the mail is sent, and works for
//! the account with that address, even if the account was created after the invitation.

use std::time::Duration;

use kitfleet_types::ids::{AccountId, InviteId, MembershipId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde_json::json;
use sqlx::PgConnection;

use super::Role;
use super::members::Membership;
use crate::accounts::{self, AccountStatus};
use crate::audit::{self, Actor, Entry};
use crate::email_addresses::EmailAddress;
use crate::tokens::{self, Token};

#[derive(Debug, Clone)]
pub struct Invite {
    pub id: InviteId,
    pub owner_account_id: AccountId,
    pub invitee_email: String,
    pub role: Role,
    pub expires_at: Timestamp,
    pub invited_by_account_id: AccountId,
    pub accepted_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("the account with this e-mail address is already a member of the team")]
    AlreadyMember,
    #[error("the account does not exist")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `team.member_invited`. The caller must queue the mail.
pub async fn create(
    conn: &mut PgConnection,
    owner: AccountId,
    actor: &Actor,
    invitee: &EmailAddress,
    role: Role,
    ttl: Duration,
) -> Result<InviteId, InviteError> {
    accounts::hold(&mut *conn, owner).await?.ok_or(InviteError::NoAccount)?;
    // The lock allows one call at a time, so that an address has at most one pending invite.
    sqlx::query!("select id from teams where owner_account_id = $1 for no key update", owner as _)
        .fetch_one(&mut *conn)
        .await?;
    // This waits for a concurrent acceptance of the previous invite, after which the invitee is a member.
    sqlx::query!(
        "delete from team_invites where owner_account_id = $1 and invitee_email_key = $2 and accepted_at is null",
        owner as _,
        invitee.key(),
    )
    .execute(&mut *conn)
    .await?;
    let known = sqlx::query!(
        r#"select a.id = $1 as "is_owner!",
                  exists(select from team_members m where m.owner_account_id = $1 and m.member_account_id = a.id) as "is_member!"
           from accounts a where a.email_key = $2 and a.status <> 'deleted'"#,
        owner as _,
        invitee.key(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    if let Some(known) = known {
        if known.is_owner {
            return Err(Invalid::field("email", "must not be the account's own").into());
        }
        if known.is_member {
            return Err(InviteError::AlreadyMember);
        }
    }
    let id = InviteId::generate();
    sqlx::query!(
        "insert into team_invites
            (id, owner_account_id, invitee_email, invitee_email_key, role, invited_by_account_id, expires_at)
         values ($1, $2, $3, $4, $5, $2, now() + $6)",
        id as _,
        owner as _,
        invitee.as_str(),
        invitee.key(),
        role as _,
        ttl as _,
    )
    .execute(&mut *conn)
    .await?;
    let payload = json!({"invitee_email": invitee.as_str(), "role": role});
    let entry = Entry { action: "team.member_invited", target: Some(id.to_string()), payload };
    audit::record(conn, owner, actor, entry).await?;
    Ok(id)
}

pub async fn list_pending(conn: &mut PgConnection, owner: AccountId) -> sqlx::Result<Vec<Invite>> {
    sqlx::query_as!(
        Invite,
        r#"select id, owner_account_id, invitee_email, role as "role: _", expires_at, invited_by_account_id, accepted_at,
                  created_at
           from team_invites where owner_account_id = $1 and accepted_at is null and expires_at > now() order by id desc"#,
        owner as _,
    )
    .fetch_all(conn)
    .await
}

/// Ends a pending invite and writes `team.invite_revoked`. Its link stops working.
pub async fn revoke(conn: &mut PgConnection, owner: AccountId, id: InviteId, actor: &Actor) -> sqlx::Result<bool> {
    let revoked = sqlx::query!(
        r#"delete from team_invites where id = $1 and owner_account_id = $2 and accepted_at is null and expires_at > now()
           returning invitee_email, role as "role: Role""#,
        id as _,
        owner as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(revoked) = revoked else { return Ok(false) };
    let payload = json!({"invitee_email": revoked.invitee_email, "role": revoked.role});
    let entry = Entry { action: "team.invite_revoked", target: Some(id.to_string()), payload };
    audit::record(conn, owner, actor, entry).await?;
    Ok(true)
}

/// Returns the address of a pending invite.
pub async fn address(conn: &mut PgConnection, owner: AccountId, id: InviteId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "select invitee_email from team_invites
         where id = $1 and owner_account_id = $2 and accepted_at is null and expires_at > now()",
        id as _,
        owner as _,
    )
    .fetch_optional(conn)
    .await
}

/// Makes the link of a pending invite void and its lifetime start again. The caller must queue the mail.
pub async fn renew(conn: &mut PgConnection, owner: AccountId, id: InviteId, ttl: Duration) -> sqlx::Result<bool> {
    let renewed = sqlx::query!(
        "update team_invites set token_hash = null, expires_at = now() + $3
         where id = $1 and owner_account_id = $2 and accepted_at is null and expires_at > now()",
        id as _,
        owner as _,
        ttl as _,
    )
    .execute(conn)
    .await?;
    Ok(renewed.rows_affected() > 0)
}

#[derive(Debug)]
pub struct Link {
    pub invitee_email: String,
    /// Earlier tokens no longer work.
    pub token: Token,
}

/// `None` when the invite can no longer be accepted or the owner's account is not active.
pub async fn issue(conn: &mut PgConnection, id: InviteId) -> sqlx::Result<Option<Link>> {
    let token = Token::generate();
    let invitee_email = sqlx::query_scalar!(
        "update team_invites i set token_hash = $2 from accounts o
         where i.id = $1 and i.accepted_at is null and i.expires_at > now()
           and o.id = i.owner_account_id and o.status = 'active' returning i.invitee_email",
        id as _,
        token.hash(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(invitee_email.map(|invitee_email| Link { invitee_email, token }))
}

#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the token is not valid for a pending invitation")]
    BadToken,
    #[error("the invitation was sent to another e-mail address than that of the account")]
    OtherAddress,
    #[error("the account is already a member of the team")]
    AlreadyMember,
    #[error("the account does not exist")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Writes `team.invite_accepted` to the owner's log. Of several callers with one token, one succeeds. A caller with
/// another address does not use the token up.
pub async fn accept(
    conn: &mut PgConnection,
    member: AccountId,
    actor: &Actor,
    token: &str,
) -> Result<Membership, AcceptError> {
    let hash = tokens::hash(token);
    let owner = sqlx::query_scalar!("select owner_account_id from team_invites where token_hash = $1", hash)
        .fetch_optional(&mut *conn)
        .await?
        .ok_or(AcceptError::BadToken)?;
    // A concurrent deletion of either account waits and then finds the membership.
    let both = sqlx::query!(
        r#"select id, status as "status: AccountStatus", email, email_key from accounts
           where id in ($1, $2) and status <> 'deleted' order by id for share"#,
        owner as _,
        member as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    let member = both.iter().find(|account| account.id == member).ok_or(AcceptError::NoAccount)?;
    let owner = both.iter().find(|account| account.id == owner && account.status == AccountStatus::Active);
    let owner = owner.ok_or(AcceptError::BadToken)?.id;

    let accepted = sqlx::query!(
        r#"update team_invites set accepted_at = now()
           where token_hash = $1 and invitee_email_key = $2 and accepted_at is null and expires_at > now()
           returning id, role as "role: Role", invited_by_account_id, created_at"#,
        hash,
        member.email_key,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(invite) = accepted else { return Err(refusal(conn, &hash).await?) };
    let inserted = sqlx::query!(
        "insert into team_members (id, owner_account_id, member_account_id, role, invited_by_account_id, invited_at)
         values ($1, $2, $3, $4, $5, $6) returning id, accepted_at",
        MembershipId::generate() as _,
        owner as _,
        member.id as _,
        invite.role as _,
        invite.invited_by_account_id as _,
        invite.created_at as _,
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(|error| match error.as_database_error().and_then(|e| e.constraint()) {
        Some("team_members_pair_key") => AcceptError::AlreadyMember,
        _ => error.into(),
    })?;
    let payload = json!({"invite_id": invite.id, "membership_id": inserted.id, "role": invite.role});
    let entry = Entry { action: "team.invite_accepted", target: Some(invite.id.to_string()), payload };
    audit::record(conn, owner, actor, entry).await?;
    Ok(Membership {
        id: inserted.id,
        owner_account_id: owner,
        member_account_id: member.id,
        member_email: member.email.clone(),
        role: invite.role,
        invited_at: invite.created_at,
        accepted_at: inserted.accepted_at,
        invited_by_account_id: invite.invited_by_account_id,
    })
}

/// The membership contains the same information.
pub async fn purge(conn: &mut PgConnection, age: Duration, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from team_invites where id in (
             select id from team_invites where accepted_at < now() - make_interval(secs => $1)
             order by accepted_at limit $2 for update skip locked)",
        age.as_secs_f64(),
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

/// An expired row is kept for a day (contract: retention 7), in which a caller with the token receives the reason for the refusal.
pub async fn purge_expired(conn: &mut PgConnection, limit: i64) -> sqlx::Result<u64> {
    let purged = sqlx::query!(
        "delete from team_invites where id in (
             select id from team_invites where accepted_at is null and expires_at < now() - interval '1 day' limit $1 for update skip locked)",
        limit,
    )
    .execute(conn)
    .await?;
    Ok(purged.rows_affected())
}

async fn refusal(conn: &mut PgConnection, hash: &[u8]) -> sqlx::Result<AcceptError> {
    let pending = sqlx::query_scalar!(
        r#"select exists(select from team_invites where token_hash = $1 and accepted_at is null and expires_at > now())
           as "pending!""#,
        hash,
    )
    .fetch_one(conn)
    .await?;
    Ok(if pending { AcceptError::OtherAddress } else { AcceptError::BadToken })
}
