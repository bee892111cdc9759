//! The links that are mailed, as their pages send them back.

use serde::Deserialize;
use utoipa::ToSchema;

/// Body of a link's routes
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI"}))]
pub struct LinkToken {
    /// The `token` of the link that was mailed
    pub token: String,
}
