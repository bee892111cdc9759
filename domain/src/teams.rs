//! Teams (interface, "Team records", "Team" and "Authentication" 8): other people's accounts that may act on an owner's.

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::accounts::AccountStatus;
use crate::ids::AccountId;

/// What a member may do with what is the owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Member,
    /// Read and write.
    Admin,
}

impl Role {
    /// As the interface spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }
}

/// Somebody's standing with an owner.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// What they may do.
    pub role: Role,
    /// Whether the owner's account may act.
    pub owner_status: AccountStatus,
}

/// How `member` stands with `owner`; `None` when they are not on that team.
///
/// # Errors
/// When the database fails.
pub async fn standing(conn: &mut PgConnection, owner: AccountId, member: AccountId) -> sqlx::Result<Option<Standing>> {
    sqlx::query_as!(
        Standing,
        r#"select m.role as "role: _", o.status as "owner_status: _"
           from team_members m join accounts o on o.id = m.owner_account_id
           where m.owner_account_id = $1 and m.member_account_id = $2 and o.status <> 'deleted'"#,
        owner as _,
        member as _,
    )
    .fetch_optional(conn)
    .await
}
