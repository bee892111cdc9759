//! Profiles (contract: profiles).
//!
//! [`Stores`](kitfleet_profiles::Stores) reads and writes profile data outside a transaction, because this takes time in
//! proportion to the size. A profile that is created from data therefore gets its store first. If the row is refused, the store
//! is removed immediately; a store whose row is never written is removed later.

mod documents;
mod snapshots;

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderName, StatusCode};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::archetypes;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::profiles::sources::{self, Source};
use kitfleet_domain::profiles::{
    self, ChangeError, Content, CreateError, Filter, NewProfile, Origin, ProfileName, TooManyBytes,
};
use kitfleet_domain::teams::Role;
use kitfleet_profiles::{CopyError, LatestError, ReadError, SaveError, Saved};
use kitfleet_types::ids::{AccountId, ProfileId, SnapshotId, StoreId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::client_disconnect::ClientDisconnect;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json, Unchecked};
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{
    AnotherProfile, BeingKept, Body, Creating, Database, InvalidQuery, NoProfile, NotDeleted, ProfileInUse, Restricted,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::{self, CreatedSession, LaunchBody, Session};

const READ_PROFILES: Rule = Rule::scope(Scope::ReadProfiles).for_team(Role::Member).open_to_free_devices();
const WRITE_PROFILES: Rule = Rule::scope(Scope::WriteProfiles).for_team(Role::Admin).open_to_free_devices();

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_PROFILES, routes!(create))
        .allow(READ_PROFILES, routes!(list))
        .allow(READ_PROFILES, routes!(get))
        .allow(WRITE_PROFILES, routes!(rename, delete))
        .allow(WRITE_PROFILES, routes!(restore))
        .allow(WRITE_PROFILES, routes!(purge))
        .allow(WRITE_PROFILES, routes!(clone))
        .allow(WRITE_PROFILES, routes!(launch))
        .merge(snapshots::routes())
        .merge(documents::routes())
}

/// Maximum time that a read waits while the data of the profile's last session is being saved.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// Browser data that sessions start from and save back to
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "prof_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "name": "Shop, signed in", "archetype": "iphone-16-ios-18", "size_bytes": 183_204, "created_at": "2026-11-20T18:05:00.123Z",
    "updated_at": "2026-11-20T18:09:12.481Z", "last_used_at": "2026-11-20T18:07:30.004Z", "deleted_at": null,
}))]
struct Profile {
    /// Profile ID
    #[schema(value_type = String)]
    id: ProfileId,
    /// Account that owns the profile
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Name set by the customer
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// Archetype of the profile's sessions
    archetype: String,
    /// Size of the stored data in bytes, compressed and sealed
    size_bytes: i64,
    /// Time the profile was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time of the last change
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// Time a session last started from the profile
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_used_at: Option<Timestamp>,
    /// Time the profile was moved to the recycle bin
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    deleted_at: Option<Timestamp>,
}

impl From<profiles::Profile> for Profile {
    fn from(profile: profiles::Profile) -> Self {
        Self {
            id: profile.id,
            account_id: profile.account_id,
            name: profile.name,
            archetype: profile.archetype,
            size_bytes: profile.size_bytes,
            created_at: profile.created_at,
            updated_at: profile.updated_at,
            last_used_at: profile.last_used_at,
            deleted_at: profile.deleted_at,
        }
    }
}

/// Response to a create: status, `Location` and profile.
type Created = (StatusCode, [(HeaderName, String); 1], Answer<Profile>);

fn created(profile: profiles::Profile) -> Created {
    (StatusCode::CREATED, [(LOCATION, format!("/v1/profiles/{}", profile.id))], Answer(profile.into()))
}

/// Body of a profile's creation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "Shop, signed in", "archetype": "iphone-16-ios-18"}))]
struct ProfileCreate {
    /// Name; it need not be unique
    #[schema(min_length = 1, max_length = 120)]
    name: String,
    /// Archetype ID from `GET /v1/archetypes`. Default: the one with status `launch`
    archetype: Option<String>,
}

/// Create a profile
///
/// Creates an empty profile; a session that uses it fills it when the session ends. The account's tier limits the number of
/// profiles. Profiles in the recycle bin count.
#[utoipa::path(
    post, path = "/v1/profiles", tag = "Profiles", operation_id = "createProfile",
    request_body = ProfileCreate,
    responses(
        (status = 201, description = "The profile", body = Profile,
         headers(("Location" = String, description = "The profile's path"))),
        Restricted, Body, AnotherProfile, Database,
    ),
)]
async fn create(caller: Caller, State(app): State<App>, body: Unchecked<ProfileCreate>) -> Result<Created> {
    let (name, archetype) = body.check(|ProfileCreate { name, archetype }| {
        let archetype = archetype.unwrap_or_else(|| archetypes::launch().id.clone());
        Ok((check(Rules::default(), &name, &archetype)?, archetype))
    })?;
    let archetype = archetype.as_str();
    let id = ProfileId::generate();
    let sealed_key = app.stores().await?.new_key(id);
    let new = NewProfile { id, name: &name, archetype, sealed_key: &sealed_key, content: None, origin: Origin::New };
    insert(&app, &caller, &new).await
}

/// Validates a name and an archetype, together with `rules`. Returns the name.
fn check(mut rules: Rules, name: &str, archetype: &str) -> Result<ProfileName, Invalid> {
    let name = ProfileName::parse(name);
    rules.note(name.as_ref().err().cloned());
    rules.note(archetypes::check(archetype).err());
    rules.check()?;
    name
}

async fn insert(app: &App, caller: &Caller, new: &NewProfile<'_>) -> Result<Created> {
    let inserted = async {
        let mut tx = app.begin_change(caller.account_id).await?;
        let profile = profiles::create(&mut tx, caller.account_id, new, &app.config.limits, &caller.actor).await?;
        tx.commit().await?;
        Ok(created(profile))
    };
    let inserted: Result<Created> = inserted.await;
    if let (Err(_), Some(Content { store, .. })) = (&inserted, new.content)
        && let Err(error) = give_up(app, store).await
    {
        tracing::warn!(%error, %store, "cannot remove an unused profile store: trying again later");
    }
    inserted
}

/// Removes the store of a profile whose row was refused, unless the row was written after all.
async fn give_up(app: &App, store: StoreId) -> Result<(), ReadError> {
    let mut conn = app.db.acquire().await.map_err(std::io::Error::other)?;
    profiles::release(&mut conn, store).await.map_err(std::io::Error::other)?;
    drop(conn);
    app.stores_to_remove().await.map_err(std::io::Error::other)?.remove(store).await
}

type ProfileList = Page<Profile>;

impl ListItem for Profile {
    const LIST: &'static str = "ProfileList";
    const MEANING: &'static str = "A page of profiles, newest first";
}

/// List profiles
///
/// Returns the profiles outside the recycle bin, or those in it.
#[utoipa::path(
    get, path = "/v1/profiles", tag = "Profiles", operation_id = "listProfiles",
    params(
        Paging,
        ("deleted" = Option<bool>, Query, description = "`true` to list the recycle bin"),
    ),
    responses((status = 200, description = "A page", body = ProfileList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<ProfileList>> {
    let deleted = query
        .parsed("deleted", |text| text.parse::<bool>().map_err(|_| Invalid::field("deleted", "must be true or false")));
    let deleted = query.filters(deleted, &app.config.limits)?.unwrap_or_default();
    let account = caller.account_id;
    let scope = CursorScope { account, list: "profiles", filters: &[deleted.then_some("deleted")] };
    let id_of = |profile: &profiles::Profile| profile.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        profiles::list(conn, account, Filter { deleted, after: after.map(ProfileId::from) }, limit).await
    });
    Ok(Answer(page.await?.map(Profile::from)))
}

/// Get a profile
#[utoipa::path(
    get, path = "/v1/profiles/{id}", tag = "Profiles", operation_id = "getProfile",
    params(IdPath<ProfileId>),
    responses((status = 200, description = "The profile", body = Profile), Restricted, NoProfile, Database),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<ProfileId>) -> Result<Answer<Profile>> {
    let (account, id) = (caller.account_id, path.id()?);
    // A caller that has just destroyed the profile's session expects its data here, but not a long wait.
    let _ = timeout(SHOWN_WITHIN, wait_until_kept(&app, account, id)).await;
    let found = profiles::find(&mut *app.db.acquire().await?, account, id).await?;
    Ok(Answer(found.ok_or_else(not_found::<ProfileId>)?.into()))
}

/// Body of a profile's change
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "Shop, as Ada"}))]
struct ProfileUpdate {
    /// New name
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Rename a profile
#[utoipa::path(
    patch, path = "/v1/profiles/{id}", tag = "Profiles", operation_id = "updateProfile",
    params(IdPath<ProfileId>), request_body = ProfileUpdate,
    responses((status = 200, description = "The profile", body = Profile), Restricted, Body, NoProfile, Database),
)]
async fn rename(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    Json(body): Json<ProfileUpdate>,
) -> Result<Answer<Profile>> {
    let name = ProfileName::parse(&body.name)?;
    let renamed = profiles::rename(&mut *app.db.acquire().await?, caller.account_id, path.id()?, &name).await?;
    Ok(Answer(renamed.ok_or_else(not_found::<ProfileId>)?.into()))
}

/// Delete a profile
///
/// Moves the profile to the recycle bin, from which it can be restored for 30 days. It counts toward the tier's limit until it is
/// purged.
#[utoipa::path(
    delete, path = "/v1/profiles/{id}", tag = "Profiles", operation_id = "deleteProfile",
    params(IdPath<ProfileId>),
    responses((status = 204, description = "The profile is in the recycle bin"), Restricted, NoProfile, ProfileInUse, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    profiles::delete(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restore a deleted profile
///
/// Moves the profile and its snapshots out of the recycle bin.
#[utoipa::path(
    post, path = "/v1/profiles/{id}/restore", tag = "Profiles", operation_id = "restoreProfile",
    params(IdPath<ProfileId>),
    responses((status = 200, description = "The profile", body = Profile), Restricted, NoProfile, NotDeleted, Database),
)]
async fn restore(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    _body: IgnoredBody,
) -> Result<Answer<Profile>> {
    let mut tx = app.begin_change(caller.account_id).await?;
    let profile = profiles::restore(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    Ok(Answer(profile.into()))
}

/// Purge a deleted profile
///
/// Deletes the profile and its snapshots permanently. It then no longer counts toward the tier's limit.
#[utoipa::path(
    delete, path = "/v1/profiles/{id}/purge", tag = "Profiles", operation_id = "purgeProfile",
    params(IdPath<ProfileId>),
    responses((status = 204, description = "The profile is deleted"), Restricted, NoProfile, NotDeleted, Database),
)]
async fn purge(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    profiles::purge(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Body of a create from another profile or a snapshot; every field is optional
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "Shop, second try"}))]
struct ProfileCopy {
    /// Name; by default the source's name with an added word
    #[schema(min_length = 1, max_length = 120)]
    name: Option<String>,
}

/// Clone a profile
///
/// Creates an independent profile with the same data. If a live session uses the source, the clone gets the data that the session
/// before it saved.
#[utoipa::path(
    post, path = "/v1/profiles/{id}/clone", tag = "Profiles", operation_id = "cloneProfile",
    params(IdPath<ProfileId>), request_body = ProfileCopy,
    responses(
        (status = 201, description = "The new profile", body = Profile,
         headers(("Location" = String, description = "The profile's path"))),
        Restricted, Body, AnotherProfile, NoProfile, BeingKept, Database,
    ),
)]
async fn clone(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    Json(body): Json<ProfileCopy>,
) -> Result<Created> {
    let name = body.name.as_deref().map(ProfileName::parse).transpose()?;
    copy(&app, &caller, Source::Profile(path.id()?), name).await
}

fn missing(source: Source) -> Problem {
    match source {
        Source::Profile(_) => not_found::<ProfileId>(),
        Source::Snapshot(_) => not_found::<SnapshotId>(),
    }
}

/// Creates a profile from the data of `source`.
async fn copy(app: &App, caller: &Caller, source: Source, name: Option<ProfileName>) -> Result<Created> {
    let account = caller.account_id;
    source.find(&mut *app.db.acquire().await?, account).await?.ok_or_else(|| missing(source))?;
    require_space(app, caller).await?;
    if let Source::Profile(id) = source {
        wait_until_kept(app, account, id).await?;
    }
    let stores = app.stores().await?;
    let id = ProfileId::generate();
    let sealed_key = stores.new_key(id);
    let copied = stores.copy_latest(account, source, (id, &sealed_key)).await.map_err(|error| match error {
        LatestError::Store(CopyError::Save(error)) => not_kept(app, &error),
        LatestError::Store(CopyError::Read(error)) => error.into(),
        LatestError::Database(error) => error.into(),
    })?;
    let (kept, saved) = copied.ok_or_else(|| missing(source))?;
    let name = name.unwrap_or_else(|| source.name(&kept.profile.name));
    let new = NewProfile {
        id,
        name: &name,
        archetype: &kept.profile.archetype,
        sealed_key: &sealed_key,
        content: saved.map(content),
        origin: source.origin(),
    };
    insert(app, caller, &new).await
}

fn content(saved: Saved) -> Content {
    Content { store: saved.id, size_bytes: saved.size_bytes }
}

/// Fails if the account has no room for another profile, before any work is done. The limit is checked again when the row is
/// written.
async fn require_space(app: &App, caller: &Caller) -> Result<()> {
    let mut tx = app.db.begin().await?;
    profiles::require_space(&mut tx, caller.account_id, &app.config.limits).await?;
    Ok(tx.rollback().await?)
}

/// Waits while a worker saves the data of the profile's last session.
async fn wait_until_kept(app: &App, account: AccountId, id: ProfileId) -> Result<()> {
    if sources::wait_until_kept(&app.db, account, id, app.config.open_timeout).await? {
        return Ok(());
    }
    let detail = "the data of the profile's last session is still being saved; try again later";
    Err(Problem::new(&kinds::CONFLICT, detail))
}

/// Launch a profile
///
/// Creates a session that starts from the profile's data, as `POST /v1/sessions` does with a `profile_id`. The session has the
/// profile's archetype.
#[utoipa::path(
    post, path = "/v1/profiles/{id}/launch", tag = "Profiles", operation_id = "launchProfile",
    params(IdPath<ProfileId>), request_body = LaunchBody,
    responses(
        (status = 201, description = "The session, ready", body = Session,
         headers(("Location" = String, description = "The session's path"))),
        Restricted, Body, Creating,
    ),
)]
async fn launch(
    caller: Caller,
    State(app): State<App>,
    disconnect: ClientDisconnect,
    path: IdPath<ProfileId>,
    body: Result<Unchecked<LaunchBody>>,
) -> Result<CreatedSession> {
    sessions::launch(&app, &caller, &disconnect, &path, body).await
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::CapReached { current, limit } => Self::new(&kinds::PROFILE_LIMIT, error.to_string())
                .with("current_profiles", current)
                .with("limit", limit),
            CreateError::Bytes(error) => error.into(),
            CreateError::NoAccount => Self::account_gone(),
            CreateError::Database(error) => error.into(),
        }
    }
}

impl From<TooManyBytes> for Problem {
    fn from(error: TooManyBytes) -> Self {
        let TooManyBytes { current, limit } = error;
        Self::new(&kinds::PROFILE_BYTES_LIMIT, error.to_string())
            .with("current_bytes", current)
            .with("limit_bytes", limit)
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::NoProfile => not_found::<ProfileId>(),
            ChangeError::InUse(session) => {
                Self::new(&kinds::PROFILE_IN_USE, error.to_string()).with("active_session_id", session)
            }
            ChangeError::NotDeleted => Self::new(&kinds::CONFLICT, error.to_string()),
            ChangeError::Database(error) => error.into(),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sealed => sealed(&error),
            ReadError::Damaged => Self::internal(&error),
            ReadError::NotYet(not_yet) => not_yet.into(),
            ReadError::Io(_) => unavailable(&error),
        }
    }
}

/// Problem for a store that could not be written.
fn not_kept(app: &App, error: &SaveError) -> Problem {
    match error {
        SaveError::TooLarge(_) => Problem::new(&kinds::PAYLOAD_TOO_LARGE, error.to_string())
            .with("limit_bytes", app.config.limits.profile_store_bytes),
        SaveError::Upload(_) => unavailable(&error),
        SaveError::Seal => sealed(&error),
        SaveError::Empty | SaveError::Serialize(_) => Problem::internal(&error),
    }
}

/// The deployment lacks the key that sealed the profile's key.
fn sealed(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "profile was sealed with another key: see mfa.retired_encryption_keys");
    Problem::new(&kinds::FEATURE_UNAVAILABLE, "this deployment lacks the key that the profile was sealed with")
}

/// The disk is full, or the profile storage is unreachable.
fn unavailable(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "cannot reach the profile storage");
    Problem::unavailable_for_now("the profile storage is unavailable")
}
