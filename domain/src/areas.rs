//! All areas, and what they say of themselves ([`crate::area`]), collected for whoever asks all of them.

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use sqlx::PgConnection;

use crate::area::{Area, Purge, ScheduledJob, Sealed};
use crate::audit::Actor;
use crate::ids::AccountId;
use crate::{
    accounts, agents, api_keys, audit, billing, byok, challenges, database, devices, emails, events, identities, live,
    livekit, mail_links, mfa, notifications, oauth, profiles, proxies, recipes, sessions, sign_ins, staff, status,
    teams, usage, web_sessions, webhooks, workers,
};

/// Every area. Who refers to another's rows comes before it: so nothing is purged while somebody refers to it, and an account
/// loses what was made with something before that itself.
static ALL: [Area; 30] = [
    live::AREA,
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

/// What can stand in an audit log, a closed table (contract: audit-log 11).
pub fn actions() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|area| area.actions).copied()
}

/// The action of this name.
#[must_use]
pub fn find_action(name: &str) -> Option<&'static str> {
    actions().find(|action| *action == name)
}

/// What workers do by the clock.
pub fn chains() -> impl Iterator<Item = ScheduledJob> {
    ALL.iter().flat_map(|area| area.chains).copied()
}

/// The tables that are not purged by their rows' age, and why.
pub fn kept() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().flat_map(|area| area.kept).copied()
}

/// The columns that the vault seals.
pub fn sealed() -> impl Iterator<Item = &'static Sealed> {
    ALL.iter().flat_map(|area| area.sealed)
}

/// What is purged together when it has reached its term.
#[derive(Debug)]
pub struct PurgeGroup {
    /// As metrics and operators name it.
    pub name: &'static str,
    purges: Vec<Purge>,
}

/// What is purged (contract: retention 1), in an order in which it can be: who is referred to comes behind who refers.
#[must_use]
pub fn arms() -> Vec<PurgeGroup> {
    let mut arms: IndexMap<_, Vec<_>> = IndexMap::new();
    for purge in ALL.iter().flat_map(|area| area.purges) {
        arms.entry(purge.arm).or_default().push(*purge);
    }
    arms.into_iter().map(|(name, purges)| PurgeGroup { name, purges }).collect()
}

impl PurgeGroup {
    /// What of it is purged, in an order in which it can be.
    #[must_use]
    pub fn purges(&self) -> &[Purge] {
        &self.purges
    }

    /// The tables whose rows they are.
    pub fn tables(&self) -> impl Iterator<Item = &'static str> {
        self.purges.iter().map(|purge| purge.table)
    }
}

/// Takes everything from an account that is being deleted by which somebody could act for it, and what it keeps.
///
/// # Errors
/// When the database fails.
pub async fn on_account_delete(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    for loss in ALL.iter().flat_map(|area| area.losses) {
        loss(&mut *conn, account, actor).await?;
    }
    Ok(())
}

/// Takes from it what has heard of the end of its sessions.
///
/// # Errors
/// When the database fails.
pub async fn lose_the_last(conn: &mut PgConnection, account: AccountId, actor: &Actor) -> sqlx::Result<()> {
    for loss in ALL.iter().flat_map(|area| area.last_losses) {
        loss(&mut *conn, account, actor).await?;
    }
    Ok(())
}
