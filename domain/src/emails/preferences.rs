//! Opt-outs of customers from mails (contract: emails 6, 7).

use std::str::FromStr;

use kitfleet_types::ids::AccountId;
use kitfleet_types::validation::Invalid;
use serde_json::json;
use sqlx::PgConnection;

use crate::audit::{self, Actor, Entry};

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum EventType {
    SignupWelcome,
    SessionSuccessFirst,
    SessionFailedFirst,
    TierChanged,
    BillingReceipt,
    BillingRenewalReminder,
}

impl EventType {
    /// All types, in the contract's order.
    pub const ALL: [Self; 6] = [
        Self::SignupWelcome,
        Self::SessionSuccessFirst,
        Self::SessionFailedFirst,
        Self::TierChanged,
        Self::BillingReceipt,
        Self::BillingRenewalReminder,
    ];

    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl FromStr for EventType {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|event_type| event_type.name() == text).ok_or_else(|| {
            let names = Self::NAMES.join(", ");
            Invalid::field("event_type", format!("must be one of {names}"))
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Preference {
    pub event_type: EventType,
    pub opted_in: bool,
}

pub async fn preferences(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<[Preference; 6]> {
    let rows = sqlx::query!("select event_type, opted_in from email_preferences where account_id = $1", account as _)
        .fetch_all(conn)
        .await?;
    Ok(EventType::ALL.map(|event_type| {
        let row = rows.iter().find(|row| row.event_type == event_type.name());
        Preference { event_type, opted_in: row.is_none_or(|row| row.opted_in) }
    }))
}

/// Writes `account.email_preferences_changed`. Returns false when the account already has this preference.
pub async fn set_preference(
    conn: &mut PgConnection,
    account: AccountId,
    actor: &Actor,
    Preference { event_type, opted_in }: Preference,
) -> sqlx::Result<bool> {
    // Without a row, mails are on.
    let changed = sqlx::query!(
        "insert into email_preferences as p (account_id, event_type, opted_in)
         select $1, $2, $3 where not $3 or exists (select from email_preferences where account_id = $1 and event_type = $2)
         on conflict (account_id, event_type) do update set opted_in = $3, updated_at = now() where p.opted_in <> $3",
        account as _,
        event_type.name(),
        opted_in,
    )
    .execute(&mut *conn)
    .await?;
    if changed.rows_affected() == 0 {
        return Ok(false);
    }
    let payload = json!({"event_type": event_type.name(), "opted_in": opted_in});
    let entry = Entry { action: "account.email_preferences_changed", target: None, payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}
