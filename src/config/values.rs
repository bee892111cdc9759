//! Syntax, checks and display of values.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kitfleet_worker::emails::{Sender, SenderError};
use serde::de::{self, Error as _, IntoDeserializer, value};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sqlx::postgres::PgConnectOptions;
use url::Url;

const MASK: &str = "********";

/// Never shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// An empty text counts as none, because an empty secret would protect nothing.
pub fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<Secret>::deserialize(deserializer)?.filter(|secret| !secret.0.trim().is_empty()))
}

/// 32 bytes, in base64.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct EncryptionKey([u8; 32]);

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for EncryptionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl EncryptionKey {
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

impl TryFrom<String> for EncryptionKey {
    type Error = &'static str;

    /// The text may be most of a key, so no message repeats it.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("must be 32 bytes in base64, such as the output of `openssl rand -base64 32`")
    }
}

/// An http or https URL without a trailing slash, so that a path can be appended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct BaseUrl(String);

impl BaseUrl {
    /// Creates a URL from a constant that is known to be valid.
    pub(super) fn known(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BaseUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url = plain_url(&text)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must be an http or https URL".to_owned());
        }
        Ok(Self(text.trim_end_matches('/').to_owned()))
    }
}

/// A URL that is shown unmasked: without query, fragment, user or password. The text may still contain a password, so
/// no message repeats it.
pub fn plain_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a query or a fragment".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not have a user or a password".to_owned());
    }
    Ok(url)
}

pub fn optional_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| plain_url(&text).map_err(de::Error::custom)).transpose()
}

/// Address of a service with its password, which is never shown.
#[derive(Clone)]
struct Address(Url);

impl Address {
    /// The text may contain a password, so no message repeats it.
    fn parse(text: &str, schemes: &[&str], example: &'static str) -> Result<Self, &'static str> {
        match Url::parse(text) {
            Ok(url) if schemes.contains(&url.scheme()) => Ok(Self(url)),
            _ => Err(example),
        }
    }

    fn masked(&self) -> String {
        if self.0.query_pairs().any(|(name, _)| name == "password") {
            return MASK.to_owned();
        }
        let mut url = self.0.clone();
        if url.password().is_some() {
            // This fails only for a URL without a host, which has no password.
            let _ = url.set_password(Some(MASK));
        }
        url.into()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.masked())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct DatabaseUrl(Address);

impl DatabaseUrl {
    pub fn options(&self) -> sqlx::Result<PgConnectOptions> {
        PgConnectOptions::from_str(self.0.0.as_str())
    }
}

impl TryFrom<String> for DatabaseUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const EXAMPLE: &str = "must be a URL such as postgres://user:password@host/database";
        let parsed = Self(Address::parse(&text, &["postgres", "postgresql"], EXAMPLE)?);
        if parsed.options().is_err() { Err("must be an address that PostgreSQL accepts") } else { Ok(parsed) }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RedisUrl(Address);

impl RedisUrl {
    pub fn client(&self) -> redis::RedisResult<redis::Client> {
        redis::Client::open(self.0.0.as_str())
    }
}

impl TryFrom<String> for RedisUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const EXAMPLE: &str = "must be a URL such as redis://:password@host:6379";
        let parsed = Self(Address::parse(&text, &["redis", "rediss"], EXAMPLE)?);
        if parsed.client().is_err() { Err("must be the address of a Redis") } else { Ok(parsed) }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct SmtpUrl(Address);

impl TryFrom<String> for SmtpUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(Address::parse(&text, &["smtp", "smtps"], "must be a URL such as smtp://user:password@host:587")?))
    }
}

impl SmtpUrl {
    pub fn reveal(&self) -> &str {
        self.0.0.as_str()
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct MailSender(Sender);

impl TryFrom<String> for MailSender {
    type Error = SenderError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(text.parse()?))
    }
}

impl From<Sender> for MailSender {
    fn from(sender: Sender) -> Self {
        Self(sender)
    }
}

impl From<MailSender> for Sender {
    fn from(MailSender(sender): MailSender) -> Self {
        sender
    }
}

impl fmt::Display for MailSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for MailSender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `10s`, `20m`, `24h`, `60d`.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// 100 years, which clocks and PostgreSQL's intervals can represent.
    const LONGEST: Duration = Duration::from_hours(36_500 * 24);

    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }

    pub fn parse(text: &str) -> Result<Duration, String> {
        let duration = humantime::parse_duration(text)
            .map_err(|error| format!("{text:?} is not a duration such as 10s, 20m, 24h or 60d: {error}"))?;
        if duration > LONGEST { Err(format!("{text:?} is longer than 36500d")) } else { Ok(duration) }
    }

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&spelled(*duration))
    }

    pub(super) fn spelled(duration: Duration) -> String {
        let millis = duration.as_millis();
        let (size, unit) =
            UNITS.into_iter().find(|(size, _)| millis >= *size && millis.is_multiple_of(*size)).unwrap_or((1, "ms"));
        format!("{}{unit}", millis / size)
    }
}

/// IPv6 addresses without brackets are accepted, because a template such as `$(POD_IP):7401` has none.
pub fn socket_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let without_brackets = || {
        let (address, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
    };
    let refused =
        || D::Error::custom(format!("`{text}` must be an address and a port, such as 10.0.0.7:7401 or [fd00::7]:7401"));
    text.parse().ok().or_else(without_brackets).ok_or_else(refused)
}

/// The error lists the words, which the configuration crate's own deserializer does not do.
pub fn word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    let word = String::deserialize(deserializer)?;
    T::deserialize(IntoDeserializer::<value::Error>::into_deserializer(word)).map_err(de::Error::custom)
}

pub fn optional_word<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let Some(word) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    T::deserialize(IntoDeserializer::<value::Error>::into_deserializer(word)).map(Some).map_err(de::Error::custom)
}

/// Numbers may be texts, as in environment variables.
pub mod warm_pool {
    use kitfleet_worker::config::WarmPool;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WarmPool, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "auto" => Ok(WarmPool::Auto),
            count => count.parse().map(WarmPool::Exactly).map_err(|_| de::Error::custom("must be `auto` or a number")),
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes what it serializes by reference")]
    pub fn serialize<S: Serializer>(pool: &WarmPool, serializer: S) -> Result<S::Ok, S::Error> {
        match *pool {
            WarmPool::Auto => serializer.serialize_str("auto"),
            WarmPool::Exactly(count) => serializer.serialize_u32(count),
        }
    }
}

pub mod optional_duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::duration;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| duration::parse(&text).map_err(D::Error::custom)).transpose()
    }

    #[expect(clippy::ref_option, reason = "serde calls it so")]
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(duration::spelled).serialize(serializer)
    }
}

pub mod durations {
    use std::time::Duration;

    use serde::{Deserializer, Serialize, Serializer};

    use super::{duration, list};

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
        list(deserializer, duration::parse)
    }

    pub fn serialize<S: Serializer>(durations: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
        durations.iter().map(|one| duration::spelled(*one)).collect::<Vec<_>>().serialize(serializer)
    }
}

pub mod texts {
    use serde::{Deserializer, Serialize, Serializer};

    use super::list;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        list(deserializer, |item| Ok(item.to_owned()))
    }

    pub fn serialize<S: Serializer>(texts: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        texts.serialize(serializer)
    }
}

/// A list of origins, as browsers write them.
pub mod origins {
    pub use super::texts::serialize;

    use serde::Deserializer;
    use url::Url;

    use super::list;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        list(deserializer, |item| {
            let origin = Url::parse(item).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            let spelled = origin.map(|url| url.origin().ascii_serialization());
            if spelled.as_deref() == Some(item) {
                return Ok(item.to_owned());
            }
            Err(format!("{item:?} is not an origin such as https://desk.example.com"))
        })
    }
}

/// Addresses and prefixes.
pub mod networks {
    use std::net::IpAddr;

    use ipnet::IpNet;
    use serde::{Deserializer, Serialize, Serializer};

    use super::list;

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
        list(deserializer, |item| {
            item.parse::<IpNet>()
                .or_else(|_| item.parse::<IpAddr>().map(IpNet::from))
                .map_err(|_| format!("{item:?} is neither an address nor a prefix such as 10.0.0.0/8"))
        })
    }

    pub fn serialize<S: Serializer>(networks: &[IpNet], serializer: S) -> Result<S::Ok, S::Error> {
        networks.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(serializer)
    }
}

pub mod encryption_keys {
    use serde::{Deserializer, Serialize, Serializer};

    use super::{EncryptionKey, list};

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EncryptionKey>, D::Error> {
        list(deserializer, |item| EncryptionKey::try_from(item.to_owned()).map_err(str::to_owned))
    }

    pub fn serialize<S: Serializer>(keys: &[EncryptionKey], serializer: S) -> Result<S::Ok, S::Error> {
        keys.serialize(serializer)
    }
}

/// A list, or a text that is comma-separated or a JSON array, as in an environment variable.
fn list<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Spelling {
        List(Vec<String>),
        Text(String),
    }

    let items = match Spelling::deserialize(deserializer)? {
        Spelling::List(items) => items,
        Spelling::Text(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str(&text).map_err(serde::de::Error::custom)?
        }
        Spelling::Text(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
    };
    items.iter().filter(|item| !item.is_empty()).map(|item| parse(item).map_err(serde::de::Error::custom)).collect()
}
