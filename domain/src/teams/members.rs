//! Members of a team.
//!
//! A key that a member creates on the owner's account ends with the membership. The creation of a key locks the
//! membership first ([`crate::roles::hold`]), and a removal deletes the membership before it searches for keys, so no
//! key remains.

use kitfleet_types::ids::{AccountId, MembershipId};
use kitfleet_types::timestamp::Timestamp;
use serde_json::json;
use sqlx::PgConnection;

use super::Role;
use crate::api_keys;
use crate::audit::{self, Actor, Entry};

#[derive(Debug, Clone)]
pub struct Membership {
    pub id: MembershipId,
    pub owner_account_id: AccountId,
    pub member_account_id: AccountId,
    pub member_email: String,
    pub role: Role,
    pub invited_at: Timestamp,
    pub accepted_at: Timestamp,
    pub invited_by_account_id: AccountId,
}

/// The newest first.
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

#[derive(Debug, Clone)]
pub struct TeamOwner {
    pub owner_account_id: AccountId,
    pub owner_email: String,
    pub owner_name: String,
    pub role: Role,
    pub membership_id: MembershipId,
}

/// The newest first.
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

/// Changes the role and writes `team.member_role_changed`; false if the member has the role already. Keys that the member created
/// have the rights of the new role from their next use on.
pub async fn set_role(
    conn: &mut PgConnection,
    owner: AccountId,
    id: MembershipId,
    role: Role,
    actor: &Actor,
) -> sqlx::Result<Option<(Membership, bool)>> {
    let previous = sqlx::query_scalar!(
        r#"select role as "role: Role" from team_members where id = $1 and owner_account_id = $2 for no key update"#,
        id as _,
        owner as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(previous) = previous else { return Ok(None) };
    let membership = sqlx::query_as!(
        Membership,
        r#"update team_members m set role = $2 from accounts a where m.id = $1 and a.id = m.member_account_id
           returning m.id, m.owner_account_id, m.member_account_id, a.email as member_email, m.role as "role: _",
                     m.invited_at, m.accepted_at, m.invited_by_account_id"#,
        id as _,
        role as _,
    )
    .fetch_one(&mut *conn)
    .await?;
    if previous != role {
        let payload = json!({"previous_role": previous, "role": role});
        let entry = Entry { action: "team.member_role_changed", target: Some(id.to_string()), payload };
        audit::record(conn, owner, actor, entry).await?;
    }
    Ok(Some((membership, previous != role)))
}

/// Revokes all active keys that the member created on the owner's account, and writes `team.member_removed`.
pub async fn remove(conn: &mut PgConnection, owner: AccountId, id: MembershipId, actor: &Actor) -> sqlx::Result<bool> {
    let member = sqlx::query_scalar!(
        "delete from team_members where id = $1 and owner_account_id = $2 returning member_account_id",
        id as _,
        owner as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(member) = member else { return Ok(false) };
    finish_removal(conn, owner, member, id, actor).await?;
    Ok(true)
}

/// Deletes the invites and all memberships of an account that is being deleted, in its own team and in others. For the
/// other teams, revokes its keys and writes the log as for a removal.
pub(super) async fn end_all(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    sqlx::query!("delete from team_invites where owner_account_id = $1", account as _).execute(&mut *conn).await?;
    // In one order, so that two members of each other's teams can be deleted at the same time.
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
            finish_removal(&mut *conn, membership.owner_account_id, account, membership.id, actor).await?;
        }
    }
    Ok(())
}

async fn finish_removal(
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
