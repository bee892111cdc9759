//! Teams (contract: teams; authorization 9): other accounts that can act on an owner's account.
//!
//! Locks are taken in one order: accounts, then the owner's team, then invites or memberships, then keys.

pub mod invites;
pub mod members;

use kitfleet_types::ids::{AccountId, TeamId};
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{self, Invalid};
use serde_json::json;
use sqlx::PgConnection;

use crate::accounts::AccountStatus;
use crate::area::{Area, Bound, Purge};
use crate::audit::{self, Actor, Entry};
pub use crate::roles::Role;

pub(crate) const AREA: Area = Area {
    kept: &[("teams", "one for each account"), ("team_members", "one row for each membership, until it ends")],
    purges: &[
        Purge::new("tokens", "team_invites", |conn, _, limit| Box::pin(invites::purge_expired(conn, limit))),
        Purge::new("invites", "team_invites", |conn, terms, limit| {
            Box::pin(invites::purge(conn, terms.revoked, limit))
        }),
    ],
    actions: &[
        "team.member_invited",
        "team.invite_accepted",
        "team.invite_revoked",
        "team.member_role_changed",
        "team.member_removed",
        "team.updated",
    ],
    mails: &["team_invite"],
    on_account_delete: &[|conn, account, actor| Box::pin(members::end_all(conn, account, actor))],
    bounds: &[
        ("teams", Bound::Account("1")),
        (
            "team_members",
            Bound::Account("`rate_limits.team_invites_per_hour` (100) invitations an hour, each for one member"),
        ),
        ("team_invites", Bound::Term("a day after it expired; 90 days after it was accepted")),
    ],
    ..Area::named("teams")
};

#[derive(Debug, Clone, Copy)]
pub struct TeamMembership {
    pub role: Role,
    pub owner_status: AccountStatus,
}

pub async fn membership(
    conn: &mut PgConnection,
    owner: AccountId,
    member: AccountId,
) -> sqlx::Result<Option<TeamMembership>> {
    sqlx::query_as!(
        TeamMembership,
        r#"select m.role as "role: _", o.status as "owner_status: _"
           from team_members m join accounts o on o.id = m.owner_account_id
           where m.owner_account_id = $1 and m.member_account_id = $2 and o.status <> 'deleted'"#,
        owner as _,
        member as _,
    )
    .fetch_optional(conn)
    .await
}

/// Every account has one, which is created with the account.
#[derive(Debug, Clone)]
pub struct Team {
    pub id: TeamId,
    pub name: String,
    pub owner_account_id: AccountId,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamName(String);

impl TeamName {
    pub fn parse(text: &str, limits: &Limits) -> Result<Self, Invalid> {
        validation::name(text, limits.team_name_chars).map(Self)
    }
}

/// Creates the team of a new account, with the name of the account owner.
pub async fn create(conn: &mut PgConnection, owner: AccountId) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into teams (id, owner_account_id, name) select $1, id, name from accounts where id = $2",
        TeamId::generate() as _,
        owner as _,
    )
    .execute(conn)
    .await?;
    Ok(())
}

pub async fn list(conn: &mut PgConnection, owner: AccountId) -> sqlx::Result<Vec<Team>> {
    sqlx::query_as!(
        Team,
        "select id, name, owner_account_id, created_at, updated_at from teams where owner_account_id = $1",
        owner as _,
    )
    .fetch_all(conn)
    .await
}

/// Writes `team.updated`.
pub async fn rename(
    conn: &mut PgConnection,
    owner: AccountId,
    id: TeamId,
    name: &TeamName,
    actor: &Actor,
) -> sqlx::Result<Option<Team>> {
    let previous = sqlx::query_scalar!(
        "select name from teams where id = $1 and owner_account_id = $2 for no key update",
        id as _,
        owner as _,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(previous) = previous else { return Ok(None) };
    let team = sqlx::query_as!(
        Team,
        "update teams set name = $2, updated_at = now() where id = $1
         returning id, name, owner_account_id, created_at, updated_at",
        id as _,
        name.0,
    )
    .fetch_one(&mut *conn)
    .await?;
    let payload = json!({"previous_name": previous, "name": team.name});
    let entry = Entry { action: "team.updated", target: Some(id.to_string()), payload };
    audit::record(conn, owner, actor, entry).await?;
    Ok(Some(team))
}
