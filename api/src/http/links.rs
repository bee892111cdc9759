//! Mailed links, as their pages submit them.

use serde::Deserialize;
use utoipa::ToSchema;

/// Request body of the routes that take a mailed link
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI"}))]
pub struct LinkToken {
    /// Token of the mailed link
    pub token: String,
}
