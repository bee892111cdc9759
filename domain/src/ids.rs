//! Identifiers: a visible prefix and a UUID of version 7, so that ids sort by time (contract: requests 1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A text that is no id of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an ID of the form {prefix}_<uuid>")]
pub struct MalformedId {
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, sqlx::Type)]
        #[sqlx(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// What stands before the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A fresh id, later than every earlier one of this process.
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id without its prefix.
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

            /// Accepts only the spelling that [`fmt::Display`] writes: one resource, one name.
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
    /// An account.
    AccountId,
    "acc"
);
id!(
    /// An API key.
    ApiKeyId,
    "key"
);
id!(
    /// A signed-in device.
    WebSessionId,
    "wsess"
);
id!(
    /// A mail.
    EmailId,
    "eml"
);
id!(
    /// A sign-in that waits for its second factor. Never shown to customers.
    MfaChallengeId,
    "mfc"
);
id!(
    /// A desktop app that asks for a credential. Never shown to customers.
    DeviceAuthorizationId,
    "dev"
);
id!(
    /// An OAuth client.
    OauthClientId,
    "ocl"
);
id!(
    /// A browser session.
    SessionId,
    "ses"
);
id!(
    /// What a caller wanted of a session, and its claim on it. Never shown to customers.
    IntentId,
    "int"
);
id!(
    /// One incarnation of a worker.
    WorkerId,
    "wrk"
);

id!(
    /// A credential of staff.
    StaffCredentialId,
    "stf"
);
id!(
    /// Many dead letters that staff have sent once more.
    RequeueId,
    "rqu"
);
id!(
    /// A tier that is paid for with a crypto currency.
    OrderId,
    "ord"
);
id!(
    /// An address by which anybody may watch a session.
    LiveLinkId,
    "lnk"
);
id!(
    /// A team.
    TeamId,
    "team"
);
id!(
    /// Somebody's place on a team.
    MembershipId,
    "mem"
);
id!(
    /// An invitation to a team.
    InviteId,
    "inv"
);

id!(
    /// A webhook endpoint.
    WebhookId,
    "whk"
);
id!(
    /// A delivery of an event to a webhook endpoint.
    DeliveryId,
    "wdl"
);

id!(
    /// A profile.
    ProfileId,
    "prof"
);
id!(
    /// What a profile held at one moment.
    SnapshotId,
    "psnap"
);
id!(
    /// An agent session.
    AgentSessionId,
    "agt"
);
id!(
    /// What somebody said in an agent session, and what was answered.
    TurnId,
    "turn"
);
id!(
    /// A step of a turn's plan, which customers know as an intent.
    StepId,
    "step"
);

id!(
    /// The bytes of a profile's state. Never shown to customers.
    StoreId,
    "pst"
);

id!(
    /// A saved proxy.
    ProxyId,
    "prx"
);
id!(
    /// A trial of a saved proxy. Never shown to customers.
    ProxyCheckId,
    "prc"
);

id!(
    /// A stream of an account's notifications. Never shown to customers.
    NotificationStreamId,
    "nst"
);

id!(
    /// A machine on which agent sessions are shown by video.
    MacNodeId,
    "mac"
);

id!(
    /// A challenge.
    ChallengeId,
    "chl"
);

id!(
    /// A recipe.
    RecipeId,
    "rec"
);

id!(
    /// Something that goes wrong, or went, as staff tell of it.
    IncidentId,
    "inc"
);

id!(
    /// What was said of an incident.
    IncidentUpdateId,
    "inu"
);

id!(
    /// What all subscribers are to be mailed of an incident.
    IncidentNoticeId,
    "inn"
);

id!(
    /// An address that is mailed of incidents.
    SubscriberId,
    "sub"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_only_in_its_own_spelling() {
        let id = SessionId::generate();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(id.to_string().to_uppercase().parse::<SessionId>().is_err());
        assert!(id.as_uuid().to_string().parse::<SessionId>().is_err());
        assert!(format!("acc_{}", id.as_uuid()).parse::<SessionId>().is_err());
        assert!(format!("ses_{}", id.as_uuid().simple()).parse::<SessionId>().is_err());
    }
}
