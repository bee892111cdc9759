//! Roles of team members ([`crate::teams`]), which limit access to the owner's account.

use kitfleet_types::ids::AccountId;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

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
    Member,
    Admin,
}

impl Role {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Team member who created a key on the owner's account. The key has the rights that the member has through the account
/// header, as long as the membership lasts.
#[derive(Debug, Clone, Copy)]
pub struct TeamMaker {
    pub account: AccountId,
    pub role: Role,
}

/// Locks the membership until the transaction ends.
pub async fn hold(conn: &mut PgConnection, owner: AccountId, member: AccountId) -> sqlx::Result<Option<Role>> {
    sqlx::query_scalar!(
        r#"select role as "role: Role" from team_members where owner_account_id = $1 and member_account_id = $2 for share"#,
        owner as _,
        member as _,
    )
    .fetch_optional(conn)
    .await
}
