//! Snapshots of profiles: their data at one moment.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::profiles::sources::Source;
use kitfleet_domain::profiles::{self, ChangeError, ProfileName, snapshots};
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{ProfileId, SnapshotId};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Rules;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{Created, Profile, ProfileCopy, READ_PROFILES, WRITE_PROFILES, copy, wait_until_kept};
use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json};
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{
    AnotherProfile, AnotherSnapshot, BeingKept, Body, Database, InvalidQuery, NoProfile, NoSnapshot, Restricted,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Desktop apps on the free tier cannot use these routes.
const WRITE_SNAPSHOTS: Rule = Rule::scope(Scope::WriteProfiles).for_team(Role::Admin);

pub fn routes() -> Routes {
    Routes::new()
        .allow(READ_PROFILES, routes!(list))
        .allow(WRITE_PROFILES, routes!(create))
        .allow(WRITE_SNAPSHOTS, routes!(restore))
        .allow(WRITE_SNAPSHOTS, routes!(delete))
}

/// Data of a profile at one moment
#[derive(Serialize, ToSchema)]
#[schema(as = ProfileSnapshot, example = json!({
    "id": "psnap_019aa1d4-22b1-7c06-8f7e-0d4a8b6c1e90", "profile_id": "prof_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "label": "before the checkout", "size_bytes": 183_204, "created_at": "2026-11-20T18:09:30.000Z",
}))]
struct Snapshot {
    /// Snapshot ID
    #[schema(value_type = String)]
    id: SnapshotId,
    /// Profile that the snapshot was taken from
    #[schema(value_type = String)]
    profile_id: ProfileId,
    /// Label set by the customer
    #[schema(max_length = 120, required = true)]
    label: Option<String>,
    /// Size of the stored data in bytes, compressed and sealed
    size_bytes: i64,
    /// Time the snapshot was taken
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<snapshots::CreateError> for Problem {
    fn from(error: snapshots::CreateError) -> Self {
        match error {
            snapshots::CreateError::Profile(error) => error.into(),
            snapshots::CreateError::CapReached { current, limit } => {
                Self::new(&kinds::SNAPSHOT_LIMIT, error.to_string())
                    .with("current_snapshots", current)
                    .with("limit", limit)
            }
            snapshots::CreateError::Bytes(error) => error.into(),
        }
    }
}

impl From<snapshots::Snapshot> for Snapshot {
    fn from(snapshot: snapshots::Snapshot) -> Self {
        Self {
            id: snapshot.id,
            profile_id: snapshot.profile_id,
            label: snapshot.label,
            size_bytes: snapshot.size_bytes,
            created_at: snapshot.created_at,
        }
    }
}

/// Body of a snapshot's creation; every field is optional
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"label": "before the checkout"}))]
struct SnapshotCreate {
    /// Free text
    #[schema(max_length = 120)]
    label: Option<String>,
}

/// Take a snapshot of a profile
///
/// Stores the current data of the profile. If a live session uses the profile, the snapshot contains the data that the session
/// before it saved.
#[utoipa::path(
    post, path = "/v1/profiles/{id}/snapshots", tag = "Profiles", operation_id = "createProfileSnapshot",
    params(IdPath<ProfileId>), request_body = SnapshotCreate,
    responses(
        (status = 201, description = "The snapshot", body = Snapshot),
        Restricted, Body, AnotherSnapshot, NoProfile, BeingKept, Database,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    Json(body): Json<SnapshotCreate>,
) -> Result<(StatusCode, Answer<Snapshot>)> {
    let label = body.label.as_deref();
    let mut rules = Rules::default();
    rules.length(label.unwrap_or_default(), 0, app.config.limits.label_chars, "label");
    rules.check()?;
    let (account, profile) = (caller.account_id, path.id()?);
    wait_until_kept(&app, account, profile).await?;
    let mut tx = app.db.begin().await?;
    let snapshot = snapshots::create(&mut tx, account, profile, label, &app.config.limits).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Answer(snapshot.into())))
}

type SnapshotList = Page<Snapshot>;

impl ListItem for Snapshot {
    const LIST: &'static str = "ProfileSnapshotList";
    const MEANING: &'static str = "A page of snapshots, newest first";
}

/// List a profile's snapshots
#[utoipa::path(
    get, path = "/v1/profiles/{id}/snapshots", tag = "Profiles", operation_id = "listProfileSnapshots",
    params(IdPath<ProfileId>, Paging),
    responses(
        (status = 200, description = "A page", body = SnapshotList),
        Restricted, InvalidQuery, NoProfile, Database,
    ),
)]
async fn list(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<ProfileId>,
    query: Query,
) -> Result<Answer<SnapshotList>> {
    let (account, profile) = (caller.account_id, path.id()?);
    let known = profiles::find(&mut *app.db.acquire().await?, account, profile).await?;
    known.ok_or_else(not_found::<ProfileId>)?;
    let of_profile = profile.to_string();
    let scope = CursorScope { account, list: "profile_snapshots", filters: &[Some(&of_profile)] };
    let id_of = |snapshot: &snapshots::Snapshot| snapshot.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        snapshots::list(conn, profile, after.map(SnapshotId::from), limit).await
    });
    Ok(Answer(page.await?.map(Snapshot::from)))
}

/// Restore a snapshot
///
/// Creates a new profile from the snapshot. The snapshot's profile does not change.
#[utoipa::path(
    post, path = "/v1/profile-snapshots/{id}/restore", tag = "Profiles", operation_id = "restoreProfileSnapshot",
    params(IdPath<SnapshotId>), request_body = ProfileCopy,
    responses(
        (status = 201, description = "The new profile", body = Profile,
         headers(("Location" = String, description = "The profile's path"))),
        Restricted, Body, AnotherProfile, NoSnapshot, Database,
    ),
)]
async fn restore(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SnapshotId>,
    Json(body): Json<ProfileCopy>,
) -> Result<Created> {
    let name = body.name.as_deref().map(ProfileName::parse).transpose()?;
    copy(&app, &caller, Source::Snapshot(path.id()?), name).await
}

/// Delete a snapshot
///
/// Deletes the snapshot permanently.
#[utoipa::path(
    delete, path = "/v1/profile-snapshots/{id}", tag = "Profiles", operation_id = "deleteProfileSnapshot",
    params(IdPath<SnapshotId>),
    responses((status = 204, description = "The snapshot is deleted"), Restricted, NoSnapshot, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<SnapshotId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let deleted = snapshots::delete(&mut tx, caller.account_id, path.id()?).await;
    deleted.map_err(|error| match error {
        ChangeError::NoProfile => not_found::<SnapshotId>(),
        other => Problem::from(other),
    })?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
