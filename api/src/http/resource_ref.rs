//! Resource IDs in request bodies (contract: authorization 15).
//!
//! The right to use a resource belongs to the resource, not to the route that uses it. The ID in a [`ResourceRef`] can only be
//! read through [`ResourceRef::authorize`], so that a handler cannot use it without checking the right.

use std::marker::PhantomData;

use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{ProfileId, ProxyId};
use serde::{Deserialize, Deserializer};

use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::path::{IdPath, Resource};
use crate::http::permissions::TeamRule;

/// By its ID in the body.
pub trait Usable: Resource {
    /// In addition to the route's rule.
    const RIGHT: TeamRule;
}

/// A browser with a profile is signed in wherever the profile is.
impl Usable for ProfileId {
    const RIGHT: TeamRule = TeamRule { scope: Scope::WriteProfiles, role: Role::Admin };
}

/// A browser with a saved proxy connects with the customer's proxy credentials.
impl Usable for ProxyId {
    const RIGHT: TeamRule = TeamRule { scope: Scope::WriteAgents, role: Role::Admin };
}

pub struct ResourceRef<T> {
    id: String,
    resource: PhantomData<T>,
}

impl<T: Usable> ResourceRef<T> {
    /// A malformed ID is an unknown resource.
    ///
    /// # Errors
    /// Forbidden, whether or not the resource exists.
    pub fn authorize(&self, caller: &Caller) -> Result<IdPath<T>> {
        caller.require_right(T::RIGHT)?;
        Ok(IdPath::parse(&self.id))
    }
}

impl<'de, T> Deserialize<'de> for ResourceRef<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|id| Self { id, resource: PhantomData })
    }
}
