//! Identifiers: a visible prefix and a UUID of version 7, so that ids sort by time (contract: requests 1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Error: the text is not an id of the expected type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an ID of the form {prefix}_<uuid>")]
pub struct MalformedId {
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
        pub struct $name(Uuid);

        impl $name {
            /// Prefix before the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// Generates an id that sorts after all earlier ids of this process.
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// Returns the UUID without the prefix.
            #[must_use]
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}_{}", $prefix, self.0.as_hyphenated())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = MalformedId;

            /// Accepts only the spelling that [`fmt::Display`] writes, so that each resource has one id.
            fn from_str(text: &str) -> Result<Self, MalformedId> {
                let malformed = MalformedId { prefix: $prefix };
                let uuid = text.strip_prefix(concat!($prefix, "_")).ok_or(malformed)?;
                let id = Self(Uuid::try_parse(uuid).map_err(|_| malformed)?);
                if id.to_string() == text { Ok(id) } else { Err(malformed) }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// Id of an account.
    AccountId,
    "acc"
);
id!(
    /// Id of an API key.
    ApiKeyId,
    "key"
);
id!(
    /// Id of a web session: a signed-in browser.
    WebSessionId,
    "wsess"
);
id!(
    /// Id of a mail.
    EmailId,
    "eml"
);
id!(
    /// Id of a sign-in that waits for its second factor. Never shown to customers.
    MfaChallengeId,
    "mfc"
);
id!(
    /// Id of a desktop app's request for a credential. Never shown to customers.
    DeviceAuthorizationId,
    "dev"
);
id!(
    /// Id of an OAuth client.
    OauthClientId,
    "ocl"
);
id!(
    /// Id of a browser session.
    SessionId,
    "ses"
);
id!(
    /// Id of a page of a session's browser: see [`PageId::of`].
    PageId,
    "page"
);
id!(
    /// Id of an operation on a session, with its claim on the session. Never shown to customers.
    IntentId,
    "int"
);
id!(
    /// Id of a worker process; a restarted worker has a new id.
    WorkerId,
    "wrk"
);

id!(
    /// Id of a staff credential.
    StaffCredentialId,
    "stf"
);
id!(
    /// Id of a bulk requeue of dead letters by staff.
    RequeueId,
    "rqu"
);
id!(
    /// Id of a crypto order.
    OrderId,
    "ord"
);
id!(
    /// Id of a link with which anyone can watch a session.
    LiveLinkId,
    "lnk"
);
id!(
    /// Id of a link with which anyone can download a session's trace.
    TraceLinkId,
    "trl"
);
id!(
    /// Public id of an operation on a session: that of its intent.
    OperationId,
    "op"
);
id!(
    /// Id of a team.
    TeamId,
    "team"
);
id!(
    /// Id of a membership in a team.
    MembershipId,
    "mem"
);
id!(
    /// Id of an account at an identity provider that is linked to an account.
    IdentityId,
    "idn"
);
id!(
    /// Id of an invitation to a team.
    InviteId,
    "inv"
);

id!(
    /// Id of a webhook endpoint.
    WebhookId,
    "whk"
);
id!(
    /// Id of a delivery of an event to a webhook endpoint.
    DeliveryId,
    "wdl"
);

id!(
    /// Id of a profile.
    ProfileId,
    "prof"
);
id!(
    /// Id of a snapshot of a profile.
    SnapshotId,
    "psnap"
);
id!(
    /// Id of an agent session.
    AgentSessionId,
    "agt"
);
id!(
    /// Id of a message in an agent session and its response.
    TurnId,
    "turn"
);
id!(
    /// Id of a step of a turn's plan, which customers see as an intent.
    StepId,
    "step"
);

id!(
    /// Id of a stored profile state. Never shown to customers.
    StoreId,
    "pst"
);

id!(
    /// Id of a saved proxy.
    ProxyId,
    "prx"
);
id!(
    /// Id of a check of a saved proxy. Never shown to customers.
    ProxyCheckId,
    "prc"
);

id!(
    /// Id of a stream of an account's notifications. Never shown to customers.
    NotificationStreamId,
    "nst"
);

id!(
    /// Id of a machine that shows agent sessions by video.
    MacNodeId,
    "mac"
);

id!(
    /// Id of a challenge.
    ChallengeId,
    "chl"
);

id!(
    /// Id of a download of a session. It exists as long as the session's browser.
    DownloadId,
    "dl"
);
id!(
    /// Id of a file that is attached to an agent session.
    AttachedFileId,
    "file"
);
id!(
    /// Id of the files of an upload, from their arrival at the worker until their operation. Never shown to customers.
    UploadId,
    "upl"
);

id!(
    /// Id of a recipe.
    RecipeId,
    "rec"
);

id!(
    /// Id of an incident that staff posted.
    IncidentId,
    "inc"
);

id!(
    /// Id of an update of an incident.
    IncidentUpdateId,
    "inu"
);

id!(
    /// Id of a mail to all subscribers about an incident.
    IncidentNoticeId,
    "inn"
);

id!(
    /// Id of a subscriber of incident mails.
    SubscriberId,
    "sub"
);

impl From<IntentId> for OperationId {
    fn from(intent: IntentId) -> Self {
        Self(intent.0)
    }
}

impl From<OperationId> for IntentId {
    fn from(operation: OperationId) -> Self {
        Self(operation.0)
    }
}

impl PageId {
    /// Id of the page that has this number in the session's browser. Pages are not stored, so their ids are those that follow the
    /// session's.
    #[must_use]
    pub fn of(session: SessionId, number: u32) -> Self {
        Self(Uuid::from_u128(session.0.as_u128().wrapping_add(number.into())))
    }

    /// Number of the page in the session's browser. `None` for an id that no page of this session can have.
    #[must_use]
    pub fn number_in(self, session: SessionId) -> Option<u32> {
        u32::try_from(self.0.as_u128().wrapping_sub(session.0.as_u128())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_id_gives_the_number_of_the_page_in_its_own_session() {
        let (session, other) = (SessionId::generate(), SessionId::generate());
        let page = PageId::of(session, 3);
        assert_eq!(page.to_string().parse(), Ok(page));
        assert_eq!(page.number_in(session), Some(3));
        assert!(PageId::of(session, 4) > page);
        assert_ne!(page.number_in(other), Some(3));
        assert_eq!(PageId::from(session.as_uuid()).number_in(session), Some(0));
    }

    #[test]
    fn id_is_parsed_only_in_its_own_spelling() {
        let id = SessionId::generate();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().to_uppercase().parse::<SessionId>().is_err());
        assert!(id.as_uuid().to_string().parse::<SessionId>().is_err());
        assert!(format!("acc_{}", id.as_uuid()).parse::<SessionId>().is_err());
        assert!(format!("ses_{}", id.as_uuid().simple()).parse::<SessionId>().is_err());
    }
}
