//! Agent sessions over video (contract: livekit): the nodes that run a LiveKit server, the assignment of agent sessions to rooms
//! on them, and the tokens for these rooms.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use kitfleet_types::ids::{AccountId, AgentSessionId, MacNodeId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{self, Invalid, Rules};
use serde::Serialize;
use serde_json::json;
use sha2::Sha256;
use sqlx::{Connection as _, PgConnection};
use url::Url;
use uuid::Uuid;

use crate::area::{Area, Bound, Sealed};
use crate::live::Role;
use crate::vault::{UnsealError, Vault};

pub(crate) const AREA: Area = Area {
    kept: &[("mac_nodes", "one a machine"), ("livekit_rooms", "purged with their agent sessions")],
    bounds: &[
        ("mac_nodes", Bound::Operator("one for each machine")),
        ("livekit_rooms", Bound::Account("1 for each agent session")),
    ],
    sealed: &[Sealed {
        kind: "livekit_secrets",
        table: "mac_nodes",
        id: "id",
        part: None,
        purpose: PURPOSE,
        has_shared_key: false,
        columns: &[("sealed_api_secret", |row| MacNodeId::from(row.id).to_string())],
    }],
    ..Area::named("livekit")
};

const PURPOSE: &str = "livekit";

/// Time to join: a participant who has joined stays.
pub const TOKEN_TTL: Duration = Duration::from_mins(10);

pub struct NewMacNode<'a> {
    /// Registering an existing name replaces that node.
    pub name: &'a str,
    pub livekit_url: &'a str,
    pub api_key: &'a str,
    pub api_secret: &'a str,
    /// `None` is unlimited.
    pub capacity: Option<i32>,
}

/// A validated description of a node (contract: livekit 2).
pub struct CheckedMacNode<'a> {
    name: String,
    livekit_url: String,
    new: NewMacNode<'a>,
}

impl<'a> NewMacNode<'a> {
    /// No message repeats the secret.
    pub fn check(self) -> Result<CheckedMacNode<'a>, Invalid> {
        const MAX: usize = 255;
        let mut rules = Rules::default();
        let name = validation::name(self.name, 120);
        rules.note(name.as_ref().err().cloned());
        let url = Url::parse(self.livekit_url).ok().filter(|url| {
            let is_bare = url.query().is_none() && url.fragment().is_none() && url.password().is_none();
            url.scheme() == "wss" && url.has_host() && url.username().is_empty() && is_bare
        });
        let is_url = url.is_some() && self.livekit_url.len() <= 2_048;
        rules.require(
            is_url,
            "livekit_url",
            "must be a URL such as wss://node.example.com, without credentials or a query",
        );
        for (text, field, max) in [(self.api_key, "api_key", MAX), (self.api_secret, "api_secret", 1_024)] {
            rules.length(text, 1, max, field);
            let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
            rules.require(is_printable, field, "must contain only printable ASCII characters without white space");
        }
        let is_number = self.capacity.is_none_or(|capacity| (1..=10_000).contains(&capacity));
        rules.require(is_number, "capacity", "must be 1 to 10,000");
        rules.check()?;
        let livekit_url = url.map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_default();
        Ok(CheckedMacNode { name: name?, livekit_url, new: self })
    }
}

#[derive(Debug)]
pub struct MacNode {
    pub id: MacNodeId,
    pub name: String,
    pub livekit_url: String,
    pub created_at: Timestamp,
}

/// Replaces the node of the same name (contract: livekit 1). Returns true with a new node.
pub async fn register(
    conn: &mut PgConnection,
    node: &CheckedMacNode<'_>,
    vault: &Vault,
) -> sqlx::Result<(MacNode, bool)> {
    let mut tx = conn.begin().await?;
    // The secret is sealed with the row's id. The lock makes two simultaneous registrations of one name use the same id.
    sqlx::query!("select pg_advisory_xact_lock(hashtextextended('mac_nodes ' || $1, 0))", node.name)
        .fetch_one(&mut *tx)
        .await?;
    let known =
        sqlx::query_scalar!("select id from mac_nodes where name = $1", node.name).fetch_optional(&mut *tx).await?;
    let id = known.unwrap_or_else(MacNodeId::generate);
    let stored = sqlx::query_as!(
        MacNode,
        "insert into mac_nodes (id, name, livekit_url, api_key, sealed_api_secret, capacity) values ($1, $2, $3, $4, $5, $6)
         on conflict (id) do update set livekit_url = excluded.livekit_url, api_key = excluded.api_key,
             sealed_api_secret = excluded.sealed_api_secret, capacity = excluded.capacity, updated_at = now()
         returning id, name, livekit_url, created_at",
        id as _,
        node.name,
        node.livekit_url,
        node.new.api_key,
        vault.seal(PURPOSE, &id.to_string(), node.new.api_secret.as_bytes()),
        node.new.capacity,
    )
    .fetch_one(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok((stored, known.is_none()))
}

/// The node that hosts an agent session's room.
pub struct AgentRoom {
    node: MacNodeId,
    pub livekit_url: String,
    api_key: String,
    secret: Vec<u8>,
}

struct Machine {
    node: MacNodeId,
    livekit_url: String,
    api_key: String,
    sealed_api_secret: Vec<u8>,
}

impl Machine {
    fn open(self, vault: Option<&Vault>) -> Result<AgentRoom, UnsealError> {
        let Self { node, livekit_url, api_key, sealed_api_secret } = self;
        let secret = vault.ok_or(UnsealError)?.open(PURPOSE, &node.to_string(), &sealed_api_secret)?;
        Ok(AgentRoom { node, livekit_url, api_key, secret })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NoRoom {
    /// No node has a free room, or there is no node.
    #[error("no machine has free capacity")]
    Full,
    /// The API secret cannot be opened: that of the assigned node, or those of all nodes with a free room.
    #[error(transparent)]
    Unreadable(#[from] UnsealError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Assigns a node if needed: the least loaded relative to its capacity (contract: livekit 6). A node whose secret does
/// not open gets no rooms, because this process could not issue tokens for them.
pub async fn place(
    conn: &mut PgConnection,
    session: AgentSessionId,
    vault: Option<&Vault>,
) -> Result<AgentRoom, NoRoom> {
    if let Some(machine) = find_machine(&mut *conn, session).await? {
        return Ok(machine.open(vault)?);
    }
    let mut tx = conn.begin().await?;
    // Serializes assignments: the next transaction counts the rooms after this one has committed. There are few nodes, so locking
    // all is cheap.
    sqlx::query!("select id from mac_nodes order by id for no key update").fetch_all(&mut *tx).await?;
    if let Some(machine) = find_machine(&mut tx, session).await? {
        return Ok(machine.open(vault)?);
    }
    // For the comparison, a node without a capacity counts as full at 100 rooms.
    let with_room = sqlx::query_as!(
        Machine,
        "select n.id as node, n.livekit_url, n.api_key, n.sealed_api_secret
         from mac_nodes n, lateral (
             select count(*)::float8 as rooms
             from livekit_rooms r join agent_sessions a on a.id = r.agent_session_id and a.status = 'active'
             where r.mac_node_id = n.id
         ) load
         where n.capacity is null or load.rooms < n.capacity
         order by load.rooms / coalesce(n.capacity, 100), n.id",
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut none = NoRoom::Full;
    for machine in with_room {
        let place = match machine.open(vault) {
            Ok(place) => place,
            Err(error) => {
                none = error.into();
                continue;
            }
        };
        let room = sqlx::query!(
            "insert into livekit_rooms (agent_session_id, mac_node_id) values ($1, $2)",
            session as _,
            place.node as _,
        );
        room.execute(&mut *tx).await?;
        tx.commit().await?;
        return Ok(place);
    }
    Err(none)
}

async fn find_machine(conn: &mut PgConnection, session: AgentSessionId) -> sqlx::Result<Option<Machine>> {
    sqlx::query_as!(
        Machine,
        "select n.id as node, n.livekit_url, n.api_key, n.sealed_api_secret
         from livekit_rooms r join mac_nodes n on n.id = r.mac_node_id where r.agent_session_id = $1",
        session as _,
    )
    .fetch_optional(conn)
    .await
}

pub struct RoomToken(String);

impl RoomToken {
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RoomToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RoomToken(…)")
    }
}

impl AgentRoom {
    /// Issues a token for the agent session's room. It expires [`TOKEN_TTL`] after `now` (contract: livekit 5).
    #[must_use]
    pub fn token(
        &self,
        session: AgentSessionId,
        account: AccountId,
        role: Role,
        now: Timestamp,
    ) -> (RoomToken, Timestamp) {
        let expires_at = Timestamp(now.0 + TOKEN_TTL);
        // LiveKit disconnects a participant when a second one joins with the same identity, so each token has its own.
        let identity = format!("{}:{account}:{}", role.name(), Uuid::now_v7().simple());
        let claims = json!({
            "iss": self.api_key,
            "sub": identity,
            "nbf": now.0.timestamp(),
            "exp": expires_at.0.timestamp(),
            "metadata": json!({"role": role.name()}).to_string(),
            "video": {
                "roomJoin": true,
                "room": session,
                "canSubscribe": true,
                "canPublish": false,
                "canPublishData": role == Role::Controller,
            },
        });
        (RoomToken(signed(&claims, &self.secret)), expires_at)
    }
}

/// RFC 7519, signed with HMAC SHA-256.
fn signed(claims: &impl Serialize, secret: &[u8]) -> String {
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = serde_json::to_value(claims).unwrap_or_default();
    let text = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&claims));
    let mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    let signature = mac.chain_update(&text).finalize().into_bytes();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected token comes from another implementation. The example in RFC 7515, appendix A.1, spells the header
    /// differently.
    #[test]
    fn token_matches_another_implementation() {
        let token =
            signed(&json!({"sub": "1234567890", "name": "John Doe", "iat": 1_516_239_022}), b"your-256-bit-secret");
        assert_eq!(
            token,
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.\
             SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
        );
    }

    #[test]
    fn each_invalid_node_field_is_reported() {
        let good = || NewMacNode {
            name: "mac-1",
            livekit_url: "wss://mac-1.example.com/",
            api_key: "APIabc",
            api_secret: "secret",
            capacity: Some(4),
        };
        let checked = good().check().expect("a valid node");
        assert_eq!(checked.livekit_url, "wss://mac-1.example.com");
        let refused = |new: NewMacNode<'_>| {
            let invalid = new.check().err().expect("an invalid node").0;
            invalid.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        for url in
            ["ws://x.example", "https://x.example", "wss://", "wss://a:b@x.example", "wss://x.example/?a", "x", ""]
        {
            assert_eq!(refused(NewMacNode { livekit_url: url, ..good() }), ["livekit_url"], "{url}");
        }
        assert_eq!(refused(NewMacNode { name: " ", ..good() }), ["name"]);
        assert_eq!(refused(NewMacNode { api_key: "a b", ..good() }), ["api_key"]);
        assert_eq!(refused(NewMacNode { api_secret: "", ..good() }), ["api_secret"]);
        assert_eq!(refused(NewMacNode { capacity: Some(0), ..good() }), ["capacity"]);
    }
}
