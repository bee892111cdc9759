//! Profiles as documents that other accounts and deployments can import (docs/profile-format.md).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use http_body::Body as _;
use kitfleet_domain::profiles::{self, NewProfile, Origin};
use kitfleet_profiles::{DocumentError, LatestError};
use kitfleet_types::ids::ProfileId;
use kitfleet_types::timestamp::Timestamp;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{
    Created, Profile, WRITE_PROFILES, check, content, insert, not_kept, require_space, unavailable, wait_until_kept,
};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::openapi::{AnotherProfile, BeingKept, Body, Database, NoProfile, Restricted, one_of};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::{json, kinds, unknown_fields};

pub fn routes() -> Routes {
    // An export contains cookies, so read access to another account's profiles does not suffice.
    Routes::new().allow(WRITE_PROFILES, routes!(export)).allow(WRITE_PROFILES, routes!(import)).never_stored()
}

/// Media type of profile documents.
const MEDIA_TYPE: &str = "application/vnd.kitfleet.profile+json";
/// Profile as a document
#[derive(ToSchema)]
#[schema(example = json!({
    "format": "kitfleet.profile", "version": 2, "exported_at": "2026-11-20T18:10:00.000Z",
    "source_profile_id": "prof_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "source_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "name": "Shop, signed in",
    "archetype": "iphone-16-ios-18", "cookies": [], "origins": [], "left_out": [],
}))]
#[expect(dead_code, reason = "documents are streamed; this type only describes them")]
struct ProfileDocument {
    /// Format name: `kitfleet.profile`
    #[schema(pattern = "^kitfleet\\.profile$")]
    format: String,
    /// Version of the format
    #[schema(minimum = 2, maximum = 2)]
    version: u32,
    /// Time of the export
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    exported_at: Option<Timestamp>,
    /// Profile that was exported
    #[schema(nullable = false)]
    source_profile_id: Option<String>,
    /// Account that owns that profile
    #[schema(nullable = false)]
    source_account_id: Option<String>,
    /// Name of the profile
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// Archetype of the profile's sessions, an ID from `GET /v1/archetypes`
    archetype: String,
    /// Cookies of all hosts
    cookies: Vec<DocumentCookie>,
    /// Storage of each origin
    origins: Vec<DocumentOrigin>,
    /// Data of the profile that the document omits
    left_out: Vec<DocumentLack>,
}

/// Cookie
#[derive(ToSchema)]
#[schema(example = json!({
    "name": "session", "value": "0f2c", "domain": "shop.example", "path": "/", "expires": 1_795_000_000, "secure": true,
    "http_only": true, "same_site": "Lax",
}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentCookie {
    /// Cookie name
    name: String,
    /// Cookie value
    value: String,
    /// Host of the cookie; with a leading dot, subdomains are included
    domain: String,
    /// Path of the cookie
    path: String,
    /// Expiry in seconds since 1970; null for a session cookie
    #[schema(required = true)]
    expires: Option<i64>,
    /// True if the cookie is sent only over https
    secure: bool,
    /// True if scripts cannot read the cookie
    http_only: bool,
    /// `Strict`, `Lax` or `None`
    #[schema(schema_with = same_site)]
    same_site: String,
}

fn same_site() -> RefOr<Schema> {
    one_of(&["Strict", "Lax", "None"], None)
}

/// Storage of an origin
#[derive(ToSchema)]
#[schema(example = json!({
    "origin": "https://shop.example", "local_storage": [["theme", "dark"]],
    "databases": [{
        "name": "cart", "version": 1,
        "stores": [{"name": "items", "key_path": "id", "auto_increment": false, "last_key": 0, "indexes": []}],
        "records": [{"store": "items", "key": 7, "value": {"object": [["id", 7], ["added", {"date": 1_795_000_000_000.0}]]}}],
    }],
}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentOrigin {
    /// Origin
    origin: String,
    /// Top-level site this storage is partitioned under
    #[schema(nullable = false)]
    embedded_in: Option<String>,
    /// Local storage: names and values, encoded as in docs/profile-format.md
    #[schema(value_type = Option<Vec<Vec<serde_json::Value>>>, nullable = false)]
    local_storage: Option<Vec<(String, serde_json::Value)>>,
    /// `IndexedDB` databases
    databases: Vec<DocumentDatabase>,
}

/// `IndexedDB` database of an origin
#[derive(ToSchema)]
#[schema(example = json!({"name": "cart", "version": 1, "stores": [], "records": []}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentDatabase {
    /// Database name
    name: String,
    /// Database version
    #[schema(minimum = 1)]
    version: i64,
    /// Object stores
    stores: Vec<DocumentStore>,
    /// Records of all object stores
    records: Vec<DocumentRecord>,
}

/// Object store
#[derive(ToSchema)]
#[schema(example = json!({"name": "items", "key_path": "id", "auto_increment": false, "last_key": 0, "indexes": []}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentStore {
    /// Store name
    name: String,
    /// Key path of the store: null, one path, or several paths
    key_path: serde_json::Value,
    /// True if the store generates keys
    auto_increment: bool,
    /// Last generated key
    last_key: i64,
    /// Indexes of the store
    indexes: Vec<DocumentIndex>,
}

/// Index of an object store
#[derive(ToSchema)]
#[schema(example = json!({"name": "by_name", "key_path": "name", "unique": false, "multi_entry": false}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentIndex {
    /// Index name
    name: String,
    /// Key path of the index: one path, or several paths
    key_path: serde_json::Value,
    /// True if no two records may have the same key
    unique: bool,
    /// True if each item of an array is a separate key
    multi_entry: bool,
}

/// Record of an object store
#[derive(ToSchema)]
#[schema(example = json!({"store": "items", "key": 7, "value": {"object": [["id", 7]]}}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentRecord {
    /// Object store of the record
    store: String,
    /// Record key
    key: serde_json::Value,
    /// Record value, encoded as in docs/profile-format.md
    value: serde_json::Value,
    /// Keys of the record in indexes
    #[schema(nullable = false)]
    index_keys: Option<Vec<DocumentIndexKey>>,
}

/// Key of a record in an index
#[derive(ToSchema)]
#[schema(example = json!({"index": "by_name", "key": "Mug"}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentIndexKey {
    /// Index name
    index: String,
    /// Key in the index
    key: serde_json::Value,
}

/// Data of a profile that its document omits
#[derive(ToSchema)]
#[schema(example = json!({
    "origin": "https://shop.example", "database": "cart", "store": "pictures", "reason": "unsupported", "count": 3,
}))]
#[expect(dead_code, reason = "it describes a part of `ProfileDocument`")]
struct DocumentLack {
    /// Origin of the data
    origin: String,
    /// Top-level site that the data is partitioned under
    #[schema(nullable = false)]
    embedded_in: Option<String>,
    /// Database of the data
    #[schema(nullable = false)]
    database: Option<String>,
    /// Object store of the data
    #[schema(nullable = false)]
    store: Option<String>,
    /// Reason: the data has no form outside a browser, is too large, or cannot be read
    #[schema(schema_with = left_out_because)]
    reason: String,
    /// Number of omitted items
    count: i64,
}

fn left_out_because() -> RefOr<Schema> {
    one_of(&["unsupported", "too_large", "unreadable"], None)
}

/// Factor by which the largest document may take longer to arrive than another body, which is far smaller.
const PATIENCE: f64 = 20.0;

/// Returns when a document arrives too slowly. Every document has twice `body_timeout`, which includes the wait for its turn. The
/// largest document has another `PATIENCE` times `body_timeout`, and smaller ones have a proportional share. Without this limit,
/// a client that sends a byte now and then would hold one of the few slots that all accounts share.
async fn too_slow(received: &AtomicU64, limit: u64, body_timeout: Duration) {
    let begun = Instant::now();
    #[expect(clippy::cast_precision_loss, reason = "documents have fewer bytes than that")]
    let share = || received.load(Ordering::Relaxed) as f64 / limit as f64;
    while let Some(left) = (body_timeout * 2 + body_timeout.mul_f64(PATIENCE * share()))
        .checked_sub(begun.elapsed())
        .filter(|left| !left.is_zero())
    {
        tokio::time::sleep(left).await;
    }
}

/// Export a profile
///
/// Returns a document that can be imported into any account. It contains the cookies and storage values in plain text. If a live
/// session uses the profile, the document contains the data that the session before it saved. If the transfer breaks off, the
/// document is incomplete.
#[utoipa::path(
    get, path = "/v1/profiles/{id}/export", tag = "Profiles", operation_id = "exportProfile",
    params(IdPath<ProfileId>),
    responses(
        (status = 200, description = "The document", content((ProfileDocument = "application/vnd.kitfleet.profile+json")),
         headers(("Content-Disposition" = String, description = "The file's name"))),
        Restricted, NoProfile, BeingKept, Database,
    ),
)]
async fn export(caller: Caller, State(app): State<App>, method: Method, path: IdPath<ProfileId>) -> Result<Response> {
    let (account, id) = (caller.account_id, path.id()?);
    let disposition = format!("attachment; filename=kitfleet-{id}.json");
    let headers = [(CONTENT_TYPE, MEDIA_TYPE.to_owned()), (CONTENT_DISPOSITION, disposition)];
    wait_until_kept(&app, account, id).await?;
    if method == Method::HEAD {
        // A HEAD request returns no data, so no export is recorded.
        let found = profiles::find(&mut *app.db.acquire().await?, account, id).await?;
        return found.map(|_| headers.into_response()).ok_or_else(not_found::<ProfileId>);
    }
    let stores = app.stores().await?;
    let exported = stores.export_latest(account, id).await.map_err(|error| match error {
        LatestError::Store(error) => Problem::from(error),
        LatestError::Database(error) => error.into(),
    })?;
    let (profile, document) = exported.ok_or_else(not_found::<ProfileId>)?;
    let mut tx = app.begin_change(account).await?;
    profiles::note_export(&mut tx, &profile, &caller.actor).await?;
    tx.commit().await?;
    let document = document.inspect_err(|error| tracing::error!(%error, "profile export ended early"));
    Ok((headers, axum::body::Body::from_stream(document)).into_response())
}

/// Import a profile
///
/// Creates a profile from a document of `GET /v1/profiles/{id}/export`, of at most 300 MiB. The whole document is validated
/// before anything is stored. Documents of version 1, which contained browser files, are rejected.
#[utoipa::path(
    post, path = "/v1/profiles/import", tag = "Profiles", operation_id = "importProfile",
    request_body(content((ProfileDocument = "application/vnd.kitfleet.profile+json"))),
    responses(
        (status = 201, description = "The profile", body = Profile,
         headers(("Location" = String, description = "The profile's path"))),
        Restricted, Body, AnotherProfile, Database,
    ),
)]
async fn import(caller: Caller, State(app): State<App>, request: Request) -> Result<Created> {
    let (parts, body) = request.into_parts();
    let body = if body.is_end_stream() {
        // As on other routes, an empty body counts as an empty object.
        axum::body::Body::from("{}")
    } else {
        json::require_json(&parts.headers)?;
        body
    };
    // The declared length is known before the body arrives.
    let limit = app.config.limits.profile_document_bytes;
    if body.size_hint().lower() > limit {
        return Err(DocumentError::TooLarge(limit).into());
    }
    let stores = app.stores().await?;
    let mut unknown = Vec::new();
    let received = AtomicU64::new(0);
    let body = body.into_data_stream().inspect_ok(|chunk| {
        received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
    });
    let read = tokio::select! {
        read = stores.read_document(caller.account_id, body, &mut unknown) => Some(read),
        () = too_slow(&received, limit, app.config.body_timeout) => None,
    };
    unknown_fields::note(&parts.extensions, unknown.iter().map(String::as_str));
    let document = match read.ok_or_else(Problem::body_too_slow)? {
        Err(DocumentError::Body(_)) if app.bodies_given_up.is_cancelled() => return Err(Problem::stopping()),
        read => read?,
    };
    let name = check(document.missing, &document.name, &document.archetype)?;
    require_space(&app, &caller).await?;

    let id = ProfileId::generate();
    let sealed_key = stores.new_key(id);
    let saved = match document.dump {
        Some(dump) => Some(stores.save(id, &sealed_key, dump).await.map_err(|error| not_kept(&app, &error))?),
        None => None,
    };
    let new = NewProfile {
        id,
        name: &name,
        archetype: &document.archetype,
        sealed_key: &sealed_key,
        content: saved.map(content),
        origin: Origin::Document { profile: document.source_profile_id, account: document.source_account_id },
    };
    insert(&app, &caller, &new).await
}

impl From<DocumentError> for Problem {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Invalid(invalid) => invalid.into(),
            DocumentError::TooLarge(limit) => {
                Self::new(&kinds::PAYLOAD_TOO_LARGE, error.to_string()).with("limit_bytes", limit)
            }
            DocumentError::Malformed(_) => {
                Self::bad_request(format!("the request's body is not a profile document: {error}"))
            }
            DocumentError::Body(_) => Self::bad_request("the request's body is incomplete"),
            DocumentError::NotYet(not_yet) => not_yet.into(),
            DocumentError::Disk(_) => unavailable(&error),
        }
    }
}
