//! Notifies listeners of changes to an account.

use kitfleet_domain::notifications::CHANNEL;
use kitfleet_types::ids::AccountId;

use crate::wakeups::Wakeups;

/// Notifies the processes that have listeners of the account. Call it after the commit. Rare changes notify in their own
/// transaction; operations do not wait for that.
pub(crate) fn notify_account(wakeups: &Wakeups, account: AccountId) {
    wakeups.broadcast(CHANNEL, account.as_uuid().to_string());
}
