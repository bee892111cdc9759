//! List of all areas, and functions that collect their declarations ([`crate::area`]).

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use kitfleet_types::ids::AccountId;
use sqlx::PgConnection;

use crate::area::{Area, Bound, Purge, ScheduledJob, Sealed};
use crate::audit::Actor;
use crate::metrics::MetricDeclaration;
use crate::{
    accounts, agents, api_keys, audit, billing, byok, challenges, database, devices, emails, events, identities, live,
    livekit, mail_links, mfa, notifications, oauth, profiles, proxies, recipes, recordings, samples, sessions,
    sign_ins, staff, status, teams, usage, web_sessions, webhooks, workers,
};

/// An area whose rows refer to another area's rows comes before it: a purge deletes no row that is still referenced,
/// and an account's deletion removes dependent objects first.
static ALL: [Area; 32] = [
    live::AREA,
    recordings::AREA,
    audit::AREA,
    staff::AREA,
    usage::AREA,
    recipes::AREA,
    livekit::AREA,
    agents::AREA,
    proxies::AREA,
    challenges::AREA,
    sessions::AREA,
    workers::AREA,
    emails::AREA,
    status::AREA,
    samples::AREA,
    sign_ins::AREA,
    web_sessions::AREA,
    mail_links::AREA,
    mfa::AREA,
    devices::AREA,
    teams::AREA,
    profiles::AREA,
    api_keys::AREA,
    oauth::AREA,
    identities::AREA,
    webhooks::AREA,
    byok::AREA,
    billing::AREA,
    events::AREA,
    notifications::AREA,
    accounts::AREA,
    database::AREA,
];

/// A closed set (contract: audit-log 11).
pub fn actions() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|area| area.actions).copied()
}

#[must_use]
pub fn find_action(name: &str) -> Option<&'static str> {
    actions().find(|action| *action == name)
}

pub fn scheduled_jobs() -> impl Iterator<Item = ScheduledJob> {
    ALL.iter().flat_map(|area| area.scheduled_jobs).copied()
}

pub fn metrics() -> impl Iterator<Item = &'static dyn MetricDeclaration> {
    ALL.iter().flat_map(|area| area.metrics).copied()
}

/// Each table has a reason.
pub fn kept() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().flat_map(|area| area.kept).copied()
}

/// Each table has a bound.
pub fn bounds() -> impl Iterator<Item = (&'static str, Bound)> {
    ALL.iter().flat_map(|area| area.bounds).copied()
}

pub fn sealed() -> impl Iterator<Item = &'static Sealed> {
    ALL.iter().flat_map(|area| area.sealed)
}

/// They run together under one name.
#[derive(Debug)]
pub struct PurgeGroup {
    pub name: &'static str,
    purges: Vec<Purge>,
}

/// Tables with references come before the tables they refer to (contract: retention 1).
#[must_use]
pub fn arms() -> Vec<PurgeGroup> {
    let mut arms: IndexMap<_, Vec<_>> = IndexMap::new();
    for purge in ALL.iter().flat_map(|area| area.purges) {
        arms.entry(purge.arm).or_default().push(*purge);
    }
    arms.into_iter().map(|(name, purges)| PurgeGroup { name, purges }).collect()
}

impl PurgeGroup {
    /// Returns the purges of the group, in the order in which they run.
    #[must_use]
    pub fn purges(&self) -> &[Purge] {
        &self.purges
    }

    pub fn tables(&self) -> impl Iterator<Item = &'static str> {
        self.purges.iter().map(|purge| purge.table)
    }
}

/// Credentials and stored data.
pub async fn on_account_delete(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    for effect in ALL.iter().flat_map(|area| area.on_account_delete) {
        effect(&mut *conn, account, actor).await?;
    }
    Ok(())
}

/// Deletes the data that had to remain until the account's sessions ended.
pub async fn delete_remaining(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    for effect in ALL.iter().flat_map(|area| area.on_account_delete_last) {
        effect(&mut *conn, account, actor).await?;
    }
    Ok(())
}
