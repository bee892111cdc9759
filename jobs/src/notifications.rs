//! Telling those who follow an account that something happened on it.

use kitfleet_domain::ids::AccountId;
use kitfleet_domain::notifications::CHANNEL;

use crate::wakeups::Wakeups;

/// Tells the processes in which somebody follows the account, once what happened is committed. What changes seldom tells by its own
/// transaction; operations do not wait for that.
pub(crate) fn tell(wakeups: &Wakeups, account: AccountId) {
    wakeups.tell_all(CHANNEL, account.as_uuid().to_string());
}
