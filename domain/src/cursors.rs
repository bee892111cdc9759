//! Cursors of lists (contract: lists 3). They are opaque, signed, and bound to the account, the list and its filters.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use kitfleet_types::ids::AccountId;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use sha2::Sha256;
use uuid::Uuid;

/// All replicas use the same key.
#[derive(Clone)]
pub struct CursorSigner {
    key: Vec<u8>,
}

/// Maximum difference between the clock of the process that generates an id and that of the database.
const CLOCK_SKEW_MILLISECONDS: i64 = 60_000;

/// Bounds of a list by creation time and cursor: the first id to list, and the id to stop before. Ids are ordered by time, but
/// only roughly, so the statement must check the time, too.
#[must_use]
pub fn id_bounds(created: (Option<Timestamp>, Option<Timestamp>), after: Option<Uuid>) -> (Uuid, Uuid) {
    let earliest = |moment: Timestamp, skew: i64| {
        let milliseconds = moment.0.timestamp_millis().saturating_add(skew);
        Uuid::from_u128(u128::try_from(milliseconds).unwrap_or_default().min((1 << 48) - 1) << 80)
    };
    let first = created.0.map_or(Uuid::nil(), |moment| earliest(moment, -CLOCK_SKEW_MILLISECONDS));
    let end = created.1.map_or(Uuid::max(), |moment| earliest(moment, CLOCK_SKEW_MILLISECONDS));
    (first, after.map_or(end, |after| end.min(after)))
}

#[derive(Debug, Clone, Copy)]
pub struct CursorScope<'a> {
    pub account: AccountId,
    pub list: &'static str,
    /// A cursor is not valid with other filters.
    pub filters: &'a [Option<&'a str>],
}

impl CursorSigner {
    #[must_use]
    pub fn new(key: Vec<u8>) -> Self {
        Self { key }
    }

    #[must_use]
    pub fn sign(&self, scope: CursorScope<'_>, last: Uuid) -> String {
        let tag = self.mac(scope, last).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([last.as_bytes().as_slice(), &tag].concat())
    }

    /// The list continues after this id.
    pub fn read(&self, scope: CursorScope<'_>, cursor: &str) -> Result<Uuid, Invalid> {
        let invalid = || Invalid::field("cursor", "must be a cursor of this list");
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| invalid())?;
        let (id, tag) = bytes.split_at_checked(16).ok_or_else(invalid)?;
        let last = Uuid::from_slice(id).map_err(|_| invalid())?;
        self.mac(scope, last).verify_slice(tag).map_err(|_| invalid())?;
        Ok(last)
    }

    fn mac(&self, scope: CursorScope<'_>, last: Uuid) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        let context = serde_json::json!([scope.account, scope.list, scope.filters]);
        mac.update(context.to_string().as_bytes());
        mac.update(last.as_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cursor_is_bound_to_its_account_list_and_filters() {
        let signer = CursorSigner::new(vec![7; 32]);
        let scope = CursorScope { account: AccountId::generate(), list: "sessions", filters: &[Some("ready")] };
        let last = Uuid::now_v7();
        let cursor = signer.sign(scope, last);
        assert_eq!(signer.read(scope, &cursor), Ok(last));
        assert!(signer.read(CursorScope { account: AccountId::generate(), ..scope }, &cursor).is_err());
        assert!(signer.read(CursorScope { list: "recipes", ..scope }, &cursor).is_err());
        assert!(signer.read(CursorScope { filters: &[None], ..scope }, &cursor).is_err());
        assert!(signer.read(scope, &cursor.replacen(|c: char| c != 'A', "A", 1)).is_err());
        assert!(signer.read(scope, "").is_err());
        assert!(signer.read(scope, "!").is_err());
    }

    proptest! {
        #[test]
        fn only_signed_cursors_are_valid(
            last in any::<u128>(), account in any::<u128>(), filter in any::<Option<String>>(), other in ".{0,100}",
        ) {
            let signer = CursorSigner::new(vec![7; 32]);
            let filters = [filter.as_deref()];
            let account = AccountId::from(Uuid::from_u128(account));
            let scope = CursorScope { account, list: "sessions", filters: &filters };
            let last = Uuid::from_u128(last);
            prop_assert_eq!(signer.read(scope, &signer.sign(scope, last)), Ok(last));
            prop_assert!(signer.read(scope, &other).is_err());
        }
    }
}
