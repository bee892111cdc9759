//! Who is on a team.
//!
//! A key that a member makes on the owner's account goes with the member. Whoever makes one holds the membership until
//! the key is there ([`crate::roles::hold`]), and a removal deletes the membership before it looks for keys: of the two, the one
//! that comes second sees what the first has done, so that no key survives.

use serde_json::json;
use sqlx::PgConnection;

use super::Role;
use crate::api_keys;
use crate::audit::{self, Actor, Entry};
use crate::ids::{AccountId, MembershipId};
use crate::timestamp::Timestamp;

/// Somebody's place on a team.
#[derive(Debug, Clone)]
pub struct Membership {
    /// Its id.
    pub id: MembershipId,
    /// Whose team it is.
    pub owner_account_id: AccountId,
    /// Who is on it.
    pub member_account_id: AccountId,
    /// Where their mail goes.
    pub member_email: String,
    /// What they may do.
    pub role: Role,
    /// When they were invited.
    pub invited_at: Timestamp,
    /// When they accepted.
    pub accepted_at: Timestamp,
    /// Who invited them.
    pub invited_by_account_id: AccountId,
}

/// Who is on the owner's team, the newest first.
///
/// # Errors
/// When the database fails.
pub async fn list(conn: &mut PgConnection, owner: AccountId) -> sqlx::Result<Vec<Membership>> {
    sqlx::query_as!(
        Membership,
        r#"select m.id, m.owner_account_id, m.member_account_id, a.email as member_email, m.role as "role: _",
                  m.invited_at, m.accepted_at, m.invited_by_account_id
           from team_members m join accounts a on a.id = m.member_account_id
           where m.owner_account_id = $1 order by m.id desc"#,
        owner as _,
    )
    .fetch_all(conn)
    .await
}

/// An owner on whose team somebody is.
#[derive(Debug, Clone)]
pub struct TeamOwner {
    /// Whose team it is.
    pub owner_account_id: AccountId,
    /// Where their mail goes.
    pub owner_email: String,
    /// What they are called.
    pub owner_name: String,
    /// What the member may do.
    pub role: Role,
    /// The member's place there.
    pub membership_id: MembershipId,
}

/// The owners on whose teams the account is, the newest first.
///
/// # Errors
/// When the database fails.
pub async fn owners(conn: &mut PgConnection, member: AccountId) -> sqlx::Result<Vec<TeamOwner>> {
    sqlx::query_as!(
        TeamOwner,
        r#"select m.owner_account_id, o.email as owner_email, o.name as owner_name, m.role as "role: _",
                  m.id as membership_id
           from team_members m join accounts o on o.id = m.owner_account_id
           where m.member_account_id = $1 order by m.id desc"#,
        member as _,
    )
    .fetch_all(conn)
    .await
}

/// Takes somebody off the owner's team, revokes every live key that they made on the owner's account, and writes
/// `team.member_removed`. `false` when the owner has no such membership.
///
/// # Errors
/// When the database fails.
pub async fn remove(conn: &mut PgConnection, owner: AccountId, id: MembershipId, actor: &Actor) -> sqlx::Result<bool> {
    let member = sqlx::query_scalar!(
        "delete from team_members where id = $1 and owner_account_id = $2 returning member_account_id",
        id as _,
        owner as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(member) = member else { return Ok(false) };
    see_off(conn, owner, member, id, actor).await?;
    Ok(true)
}

/// Ends every membership of an account that is being deleted, those of others on its team and its own on others', whose
/// logs and keys are as if it had been removed, and its invites.
///
/// # Errors
/// When the database fails.
pub(super) async fn end_all(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    sqlx::query!("delete from team_invites where owner_account_id = $1", account as _).execute(&mut *conn).await?;
    // In one order, so that two members of each other's teams can go at the same time.
    let ended = sqlx::query!(
        "delete from team_members m using (
             select id from team_members where owner_account_id = $1 or member_account_id = $1 order by id for update
         ) held where m.id = held.id returning m.id, m.owner_account_id, m.member_account_id",
        account as _,
    )
    .fetch_all(&mut *conn)
    .await?;
    for membership in ended {
        if membership.member_account_id == account {
            see_off(&mut *conn, membership.owner_account_id, account, membership.id, actor).await?;
        }
    }
    Ok(())
}

/// What there is to do when a membership is gone.
async fn see_off(
    conn: &mut PgConnection,
    owner: AccountId,
    member: AccountId,
    membership: MembershipId,
    actor: &Actor,
) -> sqlx::Result<()> {
    let revoked = api_keys::revoke_made_by(&mut *conn, owner, member).await?;
    let payload = json!({"revoked_api_key_ids": revoked});
    let entry = Entry { action: "team.member_removed", target: Some(membership.to_string()), payload };
    audit::record(conn, owner, actor, entry).await
}
