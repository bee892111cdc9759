//! What somebody may do with what is another account's: who is on its team ([`crate::teams`]).

use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::ids::AccountId;

/// What a member may do with what is the owner's.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    sqlx::Type,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Role {
    /// Read.
    Member,
    /// Read and write.
    Admin,
}

impl Role {
    /// How the contract spells them.
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// As the contract spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Who made a key on somebody else's account: a member of its team, for whom the key acts. It may do what they may do there
/// through the account header, as long as they may.
#[derive(Debug, Clone, Copy)]
pub struct TeamMaker {
    /// Their own account.
    pub account: AccountId,
    /// What they are on the team now.
    pub role: Role,
}

/// Sees to it that `member` stays on the owner's team until the transaction ends, as what they are. `None` when they are not
/// on it.
///
/// # Errors
/// When the database fails.
pub async fn hold(conn: &mut PgConnection, owner: AccountId, member: AccountId) -> sqlx::Result<Option<Role>> {
    sqlx::query_scalar!(
        r#"select role as "role: Role" from team_members where owner_account_id = $1 and member_account_id = $2 for share"#,
        owner as _,
        member as _,
    )
    .fetch_optional(conn)
    .await
}
