//! Profiles as documents that another account, or another deployment, reads (docs/profile-format.md). They are written and
//! read as they travel, whatever their size.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::Method;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::TryStreamExt;
use http_body::Body as _;
use kitfleet_domain::ids::ProfileId;
use kitfleet_domain::profiles::{self, NewProfile, Origin};
use kitfleet_domain::timestamp::Timestamp;
use kitfleet_profiles::{DocumentError, LatestError};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use super::{
    Created, Profile, WRITE_PROFILES, check, content, insert, not_kept, require_room, unavailable, wait_until_kept,
};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::openapi::{AnotherProfile, BeingKept, Body, Database, NoProfile, Restricted, one_of};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::http::{json, kinds, unknown_fields};

pub fn routes() -> Routes {
    // An export hands out cookies: a reader of somebody else's profiles may not.
    Routes::new().allow(WRITE_PROFILES, routes!(export)).allow(WRITE_PROFILES, routes!(import)).never_stored()
}

/// What documents are called.
const MEDIA_TYPE: &str = "application/vnd.kitfleet.profile+json";
/// A profile as a document
#[derive(ToSchema)]
#[schema(example = json!({
    "format": "kitfleet.profile", "version": 2, "exported_at": "2026-11-20T18:10:00.000Z",
    "source_profile_id": "prof_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "source_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "name": "Shop, signed in",
    "archetype": "iphone-16-ios-18", "cookies": [], "origins": [], "left_out": [],
}))]
#[expect(dead_code, reason = "it is written and read piece by piece; this describes the whole")]
struct ProfileDocument {
    /// `kitfleet.profile`
    #[schema(pattern = "^kitfleet\\.profile$")]
    format: String,
    /// The version of the format
    #[schema(minimum = 2, maximum = 2)]
    version: u32,
    /// When it was written
    #[schema(value_type = Option<String>, format = DateTime, nullable = false)]
    exported_at: Option<Timestamp>,
    /// Of which profile
    #[schema(nullable = false)]
    source_profile_id: Option<String>,
    /// Whose that is
    #[schema(nullable = false)]
    source_account_id: Option<String>,
    /// What it is called
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// The device that its sessions are, an id of `GET /v1/archetypes`
    archetype: String,
    /// The cookies of all hosts
    cookies: Vec<DocumentCookie>,
    /// What each origin stores
    origins: Vec<DocumentOrigin>,
    /// What the profile holds and the document does not
    left_out: Vec<DocumentLack>,
}

/// A cookie
#[derive(ToSchema)]
#[schema(example = json!({
    "name": "session", "value": "0f2c", "domain": "shop.example", "path": "/", "expires": 1_795_000_000, "secure": true,
    "http_only": true, "same_site": "Lax",
}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentCookie {
    /// Its name
    name: String,
    /// Its value
    value: String,
    /// The host it is for; with a leading dot, the hosts below it too
    domain: String,
    /// The path it is for
    path: String,
    /// When it expires, in seconds since 1970; null for one that ends with the browser
    #[schema(required = true)]
    expires: Option<i64>,
    /// Whether only https gets it
    secure: bool,
    /// Whether scripts cannot see it
    http_only: bool,
    /// `Strict`, `Lax` or `None`
    #[schema(schema_with = same_site)]
    same_site: String,
}

fn same_site() -> RefOr<Schema> {
    one_of(&["Strict", "Lax", "None"], None)
}

/// What an origin stores
#[derive(ToSchema)]
#[schema(example = json!({
    "origin": "https://shop.example", "local_storage": [["theme", "dark"]],
    "databases": [{
        "name": "cart", "version": 1,
        "stores": [{"name": "items", "key_path": "id", "auto_increment": false, "last_key": 0, "indexes": []}],
        "records": [{"store": "items", "key": 7, "value": {"object": [["id", 7], ["added", {"date": 1_795_000_000_000.0}]]}}],
    }],
}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentOrigin {
    /// The origin
    origin: String,
    /// In whose pages it is embedded that it keeps this in
    #[schema(nullable = false)]
    embedded_in: Option<String>,
    /// Its local storage: names and values, as docs/profile-format.md spells them
    #[schema(value_type = Option<Vec<Vec<serde_json::Value>>>, nullable = false)]
    local_storage: Option<Vec<(String, serde_json::Value)>>,
    /// Its `IndexedDB` databases
    databases: Vec<DocumentDatabase>,
}

/// A database of an origin
#[derive(ToSchema)]
#[schema(example = json!({"name": "cart", "version": 1, "stores": [], "records": []}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentDatabase {
    /// What it is called
    name: String,
    /// Its version
    #[schema(minimum = 1)]
    version: i64,
    /// Its object stores
    stores: Vec<DocumentStore>,
    /// What is in them
    records: Vec<DocumentRecord>,
}

/// An object store
#[derive(ToSchema)]
#[schema(example = json!({"name": "items", "key_path": "id", "auto_increment": false, "last_key": 0, "indexes": []}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentStore {
    /// What it is called
    name: String,
    /// Where in a value its key is: nowhere, a path, or paths
    key_path: serde_json::Value,
    /// Whether it makes keys up
    auto_increment: bool,
    /// The last one that it made up
    last_key: i64,
    /// Its indexes
    indexes: Vec<DocumentIndex>,
}

/// An index of an object store
#[derive(ToSchema)]
#[schema(example = json!({"name": "by_name", "key_path": "name", "unique": false, "multi_entry": false}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentIndex {
    /// What it is called
    name: String,
    /// Where in a value its key is: a path, or paths
    key_path: serde_json::Value,
    /// Whether no two values have the same
    unique: bool,
    /// Whether each item of an array is a key
    multi_entry: bool,
}

/// A record of an object store
#[derive(ToSchema)]
#[schema(example = json!({"store": "items", "key": 7, "value": {"object": [["id", 7]]}}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentRecord {
    /// Where it is
    store: String,
    /// Its key
    key: serde_json::Value,
    /// Its value, as docs/profile-format.md spells it
    value: serde_json::Value,
    /// Its keys in indexes
    #[schema(nullable = false)]
    index_keys: Option<Vec<DocumentIndexKey>>,
}

/// A record's key in an index
#[derive(ToSchema)]
#[schema(example = json!({"index": "by_name", "key": "Mug"}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentIndexKey {
    /// The index
    index: String,
    /// The key
    key: serde_json::Value,
}

/// What a profile holds and its document does not
#[derive(ToSchema)]
#[schema(example = json!({
    "origin": "https://shop.example", "database": "cart", "store": "pictures", "reason": "unsupported", "count": 3,
}))]
#[expect(dead_code, reason = "as of a document")]
struct DocumentLack {
    /// Of which origin
    origin: String,
    /// In whose pages that is embedded
    #[schema(nullable = false)]
    embedded_in: Option<String>,
    /// Of which database
    #[schema(nullable = false)]
    database: Option<String>,
    /// Of which object store
    #[schema(nullable = false)]
    store: Option<String>,
    /// Why: it holds what only a browser has, there is too much of it, or it cannot be read
    #[schema(schema_with = left_out_because)]
    reason: String,
    /// How many
    count: i64,
}

fn left_out_because() -> RefOr<Schema> {
    one_of(&["unsupported", "too_large", "unreadable"], None)
}

/// The largest document may take so many times as long to arrive as another body, which is far smaller.
const PATIENCE: f64 = 20.0;

/// Returns when less of a document has come by now than has to: the largest has `PATIENCE` times `body_timeout`, smaller ones as
/// much less as they are smaller, and all of them twice that time besides, in which they wait for their turn. Who sends a byte
/// now and then has one of the few turns that all accounts share.
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
/// As a document that can be imported into any account: its cookies and the values in its storage, in clear. Of a profile that a live session
/// has, it is what the session before it left. An export that breaks off is not whole.
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
        // It hands nothing out, and so there is nothing to write down.
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
/// Makes a profile of a document of `GET /v1/profiles/{id}/export`, of at most 300 MiB. All of it is checked before anything is
/// kept. A document of version 1, which held files of a browser, is refused.
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
        // As everywhere, no body is an empty object.
        axum::body::Body::from("{}")
    } else {
        json::require_json(&parts.headers)?;
        body
    };
    // The declared length is known before a byte of the body is.
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
    require_room(&app, &caller).await?;

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
            DocumentError::Malformed(_) => Self::bad_request(format!("the request's body is no document: {error}")),
            DocumentError::Body(_) => Self::bad_request("the request's body broke off"),
            DocumentError::NotYet(not_yet) => not_yet.into(),
            DocumentError::Disk(_) => unavailable(&error),
        }
    }
}
