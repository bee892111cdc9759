//! Invitations to a team (contract: teams 3 to 6): pending, then accepted or expired.
//!
//! An owner has one pending invite for an address: another one takes its place. Its token is made when its mail is sent,
//! and good for whoever has that address, whether or not they had an account when they were invited.

use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;

use super::Role;
use super::members::Membership;
use crate::accounts::{self, AccountStatus};
use crate::audit::{self, Actor, Entry};
use crate::email_addresses::EmailAddress;
use crate::ids::{AccountId, InviteId, MembershipId};
use crate::timestamp::Timestamp;
use crate::tokens::{self, Token};
use crate::validation::Invalid;

/// An invitation.
#[derive(Debug, Clone)]
pub struct Invite {
    /// Its id.
    pub id: InviteId,
    /// Whose team it is to.
    pub owner_account_id: AccountId,
    /// Who is invited.
    pub invitee_email: String,
    /// What they will be.
    pub role: Role,
    /// Until when it can be accepted.
    pub expires_at: Timestamp,
    /// Who invites.
    pub invited_by_account_id: AccountId,
    /// When it was accepted.
    pub accepted_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Why nobody is invited.
#[derive(Debug, thiserror::Error)]
pub enum InviteError {
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// They are on the team.
    #[error("the account with this e-mail address is already a member of the team")]
    AlreadyMember,
    /// The owner's account is deleted.
    #[error("the account does not exist")]
    NoAccount,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Invites whoever has this address, for as long as `ttl`, and writes `team.member_invited`. Who calls this has the mail
/// sent.
///
/// # Errors
/// On field `email`, when the address is the owner's; when it is a member's, or the database fails.
pub async fn create(
    conn: &mut PgConnection,
    owner: AccountId,
    actor: &Actor,
    invitee: &EmailAddress,
    role: Role,
    ttl: Duration,
) -> Result<InviteId, InviteError> {
    accounts::hold(&mut *conn, owner).await?.ok_or(InviteError::NoAccount)?;
    // One at a time, so that an address has one pending invite.
    sqlx::query!("select id from teams where owner_account_id = $1 for no key update", owner as _)
        .fetch_one(&mut *conn)
        .await?;
    // It waits for whoever accepts the invite before, and who is a member then.
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

/// The owner's invites that can be accepted, the newest first.
///
/// # Errors
/// When the database fails.
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

/// Where an invite's mail goes, and the token of its link.
#[derive(Debug)]
pub struct Link {
    /// Who is invited.
    pub invitee_email: String,
    /// The one token that is good from now on.
    pub token: Token,
}

/// Makes the link of an invite. `None` when it cannot be accepted any more, or its owner may not act.
///
/// # Errors
/// When the database fails.
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

/// Why an invite was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// There is no invite of this token that can be accepted.
    #[error("the token is not valid for a pending invitation")]
    BadToken,
    /// It is somebody else's.
    #[error("the invitation was sent to another e-mail address than that of the account")]
    OtherAddress,
    /// They are on the team.
    #[error("the account is already a member of the team")]
    AlreadyMember,
    /// The account that accepts is deleted.
    #[error("the account does not exist")]
    NoAccount,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Puts the account on the team that the invite of this token is to, and writes `team.invite_accepted` into its owner's
/// log. Of any number of callers with one token one succeeds; one who has another address leaves the token good.
///
/// # Errors
/// When the token is worthless or not theirs, they are on the team, or the database fails.
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
    // Whichever of the two is deleted meanwhile finds the membership.
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

/// Deletes invites that were accepted longer ago than `age`, up to `limit`: the membership that they led to says as much.
/// Answers how many.
///
/// # Errors
/// When the database fails.
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

/// Deletes pending invites that expired more than a day ago (contract: retention 7), up to `limit`: for so long their bearers hear why
/// they are refused. Answers how many.
///
/// # Errors
/// When the database fails.
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

/// Why the invite of this token was not to be had.
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
