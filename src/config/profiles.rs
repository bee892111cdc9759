//! `profiles.*`: storage of profile data.

use kitfleet_profiles::{Bucket, Objects, PlaceConfig, StoresConfig};
use serde::{Deserialize, Serialize};
use url::Url;

use super::values::{BaseUrl, Secret, optional_url, secret};
use super::{Config, ConfigError};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Profiles {
    pub store: Store,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// By default the database stores profile data.
    #[serde(deserialize_with = "optional_url")]
    pub url: Option<Url>,
    /// By default Amazon's.
    pub endpoint: Option<BaseUrl>,
    pub region: String,
    /// By default the credentials of the machine's role.
    pub access_key_id: Option<String>,
    #[serde(deserialize_with = "secret")]
    pub secret_access_key: Option<Secret>,
}

impl Default for Store {
    fn default() -> Self {
        Self { url: None, endpoint: None, region: "us-east-1".to_owned(), access_key_id: None, secret_access_key: None }
    }
}

impl Config {
    pub(crate) fn stores(&self) -> Result<StoresConfig, ConfigError> {
        Ok(StoresConfig {
            vault: self.auth().vault,
            place: self.profiles.store.objects()?.map_or(PlaceConfig::Database, PlaceConfig::Objects),
            scratch: self.data_dir.clone(),
            store_bytes: self.limits.profile_store_bytes,
            document_bytes: self.limits.profile_document_bytes,
        })
    }
}

impl Store {
    pub fn objects(&self) -> Result<Option<Objects>, ConfigError> {
        let credentials = match (&self.access_key_id, &self.secret_access_key) {
            (Some(id), Some(secret)) => Some((id.as_str(), secret.reveal())),
            (None, None) => None,
            _ => {
                let message =
                    "`profiles.store.access_key_id` and `profiles.store.secret_access_key` must be set together";
                return Err(ConfigError(message.to_owned()));
            }
        };
        let Some(url) = &self.url else { return Ok(None) };
        let endpoint = self.endpoint.as_ref().map(BaseUrl::as_str);
        let objects = Objects::in_bucket(Bucket { url, endpoint, region: &self.region, credentials });
        objects.map(Some).map_err(|error| ConfigError(format!("`profiles.store.url`: {error}")))
    }
}
