//! Teams (contract: teams): the members of the caller's team, and the teams the caller is a member of.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::emails::{EmailAddress, Recipient, Template};
use kitfleet_domain::teams::invites::{self, AcceptError, InviteError};
use kitfleet_domain::teams::{self, Role, TeamName, members};
use kitfleet_types::ids::{AccountId, InviteId, MembershipId, TeamId};
use kitfleet_types::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json, Unchecked};
use crate::http::kinds;
use crate::http::links::LinkToken;
use crate::http::lists::{List, ListItem};
use crate::http::openapi::{
    Accepting, Body, Database, Inviting, NoInvite, NoMembership, NoTeam, RateLimited, Restricted, named, one_of,
};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::{OWN_ACCOUNT, Rule};
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_TEAM: Rule = Rule::scope(Scope::Read);

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(invite))
        .allow(READ_TEAM, routes!(list_invites))
        .allow(OWN_ACCOUNT, routes!(revoke_invite))
        .allow(OWN_ACCOUNT, routes!(resend_invite))
        .allow(OWN_ACCOUNT, routes!(accept))
        .allow(READ_TEAM, routes!(list_members))
        .allow(OWN_ACCOUNT, routes!(set_role, remove))
        .allow(READ_TEAM, routes!(list_owners))
        .allow(READ_TEAM, routes!(list))
        .allow(OWN_ACCOUNT, routes!(rename))
}

/// A `member` can read the owner's data; an `admin` can also change it
fn role() -> RefOr<Schema> {
    named("TeamRole", one_of(Role::NAMES, None))
}

/// Request body of an invitation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"email": "grace@example.com", "role": "member"}))]
struct NewInvite {
    /// E-mail address to invite; it does not need an account
    #[schema(max_length = 254)]
    email: String,
    /// Role of the new member: a `member` can read, an `admin` can also change data
    #[schema(schema_with = role)]
    role: Role,
}

/// Result of an invitation
#[derive(Serialize, ToSchema)]
#[schema(as = SentInvite, example = json!({"message": "The invitation to grace@example.com is being sent."}))]
struct Invited {
    /// Message for people
    message: String,
}

/// Invite a team member
///
/// Mails a link that is valid for 7 days. An earlier pending invitation to the same address stops working.
#[utoipa::path(
    post, path = "/v1/team/invites", tag = "Teams", operation_id = "inviteTeamMember",
    request_body = NewInvite,
    responses(
        (status = 202, description = "The invitation is being mailed", body = Invited),
        Restricted, Body, Inviting, RateLimited, Database,
    ),
)]
async fn invite(
    caller: Caller,
    State(app): State<App>,
    body: Unchecked<NewInvite>,
) -> Result<(StatusCode, Answer<Invited>)> {
    let (invitee, role) = body.check(|NewInvite { email, role }| Ok((EmailAddress::parse(&email)?, role)))?;
    let owner = caller.account_id;
    // The limit protects recipients from unsolicited mail.
    app.rate_limits.check(Bucket::TeamInvite, owner.to_string().as_str()).await?;
    app.rate_limits.check(Bucket::TeamInvite, invitee.key()).await?;
    let ttl = app.config.invite_ttl;
    let mut tx = app.begin_change(caller.account_id).await?;
    let invite = invites::create(&mut tx, owner, &caller.actor, &invitee, role, ttl).await?;
    let recipient = Recipient::Invitee(invite);
    kitfleet_jobs::emails::send(&mut tx, Template::TeamInvite, recipient, json!({}), ttl).await?;
    tx.commit().await?;
    let message = format!("The invitation to {invitee} is being sent.");
    Ok((StatusCode::ACCEPTED, Answer(Invited { message })))
}

/// An invitation
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "inv_019aa1d2-3f0a-7b52-9c55-7d0f5a8b1e64", "owner_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "invitee_email": "grace@example.com", "role": "member", "expires_at": "2026-11-27T18:05:00.123Z",
    "invited_by_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "accepted_at": null,
    "created_at": "2026-11-20T18:05:00.123Z",
}))]
struct Invite {
    /// Invitation ID
    #[schema(value_type = String)]
    id: InviteId,
    /// Account that owns the team
    #[schema(value_type = String)]
    owner_account_id: AccountId,
    /// E-mail address that is invited
    invitee_email: String,
    /// Role of the new member
    #[schema(schema_with = role)]
    role: Role,
    /// Time the invitation expires (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Account that created the invitation
    #[schema(value_type = String)]
    invited_by_account_id: AccountId,
    /// Time the invitation was accepted (RFC 3339); null while it is pending
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    accepted_at: Option<Timestamp>,
    /// Time the invitation was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<invites::Invite> for Invite {
    fn from(invite: invites::Invite) -> Self {
        Self {
            id: invite.id,
            owner_account_id: invite.owner_account_id,
            invitee_email: invite.invitee_email,
            role: invite.role,
            expires_at: invite.expires_at,
            invited_by_account_id: invite.invited_by_account_id,
            accepted_at: invite.accepted_at,
            created_at: invite.created_at,
        }
    }
}

type InviteList = List<Invite>;

impl ListItem for Invite {
    const LIST: &'static str = "InviteList";
    const MEANING: &'static str = "Pending invitations, newest first";
}

/// List invitations
///
/// Returns the pending invitations to the caller's team.
#[utoipa::path(
    get, path = "/v1/team/invites", tag = "Teams", operation_id = "listTeamInvites",
    responses((status = 200, description = "The invitations", body = InviteList), Restricted, Database),
)]
async fn list_invites(caller: Caller, State(app): State<App>) -> Result<Answer<InviteList>> {
    let pending = invites::list_pending(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(pending.into_iter().map(Invite::from).collect()))
}

/// Revoke an invitation
///
/// Its link stops working.
#[utoipa::path(
    delete, path = "/v1/team/invites/{id}", tag = "Teams", operation_id = "revokeTeamInvite",
    params(IdPath<InviteId>),
    responses((status = 204, description = "The invitation is revoked"), Restricted, NoInvite, Database),
)]
async fn revoke_invite(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<InviteId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let revoked = invites::revoke(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if revoked { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<InviteId>()) }
}

/// Resend an invitation
///
/// Mails a new link that is valid for 7 days. The previous link stops working.
#[utoipa::path(
    post, path = "/v1/team/invites/{id}/resend", tag = "Teams", operation_id = "resendTeamInvite",
    params(IdPath<InviteId>),
    responses(
        (status = 202, description = "The invitation is being mailed", body = Invited),
        Restricted, NoInvite, RateLimited, Database,
    ),
)]
async fn resend_invite(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<InviteId>,
    _body: IgnoredBody,
) -> Result<(StatusCode, Answer<Invited>)> {
    let (id, owner, ttl) = (path.id()?, caller.account_id, app.config.invite_ttl);
    let invitee = invites::address(&mut *app.db.acquire().await?, owner, id).await?;
    let invitee = EmailAddress::parse(&invitee.ok_or_else(not_found::<InviteId>)?)?;
    app.rate_limits.check(Bucket::TeamInvite, owner.to_string().as_str()).await?;
    app.rate_limits.check(Bucket::TeamInvite, invitee.key()).await?;
    let mut tx = app.db.begin().await?;
    if !invites::renew(&mut tx, owner, id, ttl).await? {
        return Err(not_found::<InviteId>());
    }
    kitfleet_jobs::emails::send(&mut tx, Template::TeamInvite, Recipient::Invitee(id), json!({}), ttl).await?;
    tx.commit().await?;
    let message = format!("The invitation to {invitee} is being sent.");
    Ok((StatusCode::ACCEPTED, Answer(Invited { message })))
}

/// A membership in a team
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "mem_019aa1d3-7c41-7e0f-a9e4-0f6b6c1f0a52", "owner_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "member_account_id": "acc_019aa1c8-52f0-7bd6-8a0e-6a0b4a4f7d11", "member_email": "grace@example.com",
    "role": "member", "invited_at": "2026-11-20T18:05:00.123Z", "accepted_at": "2026-11-20T19:11:30.456Z",
    "invited_by_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
}))]
struct Membership {
    /// Membership ID
    #[schema(value_type = String)]
    id: MembershipId,
    /// Account that owns the team
    #[schema(value_type = String)]
    owner_account_id: AccountId,
    /// Account of the member
    #[schema(value_type = String)]
    member_account_id: AccountId,
    /// E-mail address of the member
    member_email: String,
    /// Role of the member
    #[schema(schema_with = role)]
    role: Role,
    /// Time of the invitation (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    invited_at: Timestamp,
    /// Time the invitation was accepted (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    accepted_at: Timestamp,
    /// Account that created the invitation
    #[schema(value_type = String)]
    invited_by_account_id: AccountId,
}

impl From<members::Membership> for Membership {
    fn from(membership: members::Membership) -> Self {
        Self {
            id: membership.id,
            owner_account_id: membership.owner_account_id,
            member_account_id: membership.member_account_id,
            member_email: membership.member_email,
            role: membership.role,
            invited_at: membership.invited_at,
            accepted_at: membership.accepted_at,
            invited_by_account_id: membership.invited_by_account_id,
        }
    }
}

/// Result of an accepted invitation
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedInvite)]
struct AcceptedInvite {
    membership: Membership,
}

/// Accept an invitation
///
/// Adds the caller to the owner's team. The caller must have the e-mail address that was invited. A token works once.
#[utoipa::path(
    post, path = "/v1/team/invites/accept", tag = "Teams", operation_id = "acceptTeamInvite",
    request_body = LinkToken,
    responses(
        (status = 200, description = "The membership", body = AcceptedInvite),
        Restricted, Body, Accepting, Database,
    ),
)]
async fn accept(caller: Caller, State(app): State<App>, Json(body): Json<LinkToken>) -> Result<Answer<AcceptedInvite>> {
    let mut tx = app.db.begin().await?;
    let membership = invites::accept(&mut tx, caller.account_id, &caller.actor, &body.token).await?;
    tx.commit().await?;
    Ok(Answer(AcceptedInvite { membership: membership.into() }))
}

type MembershipList = List<Membership>;

impl ListItem for Membership {
    const LIST: &'static str = "MembershipList";
    const MEANING: &'static str = "Members of a team, newest first";
}

/// List members
///
/// Returns the members of the caller's team.
#[utoipa::path(
    get, path = "/v1/team/members", tag = "Teams", operation_id = "listTeamMembers",
    responses((status = 200, description = "The memberships", body = MembershipList), Restricted, Database),
)]
async fn list_members(caller: Caller, State(app): State<App>) -> Result<Answer<MembershipList>> {
    let members = members::list(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(members.into_iter().map(Membership::from).collect()))
}

/// Request body of a membership update
#[derive(Deserialize, ToSchema)]
#[schema(as = UpdateMembership, example = json!({"role": "admin"}))]
struct RoleChange {
    /// Role of the member: a `member` can read, an `admin` can also change data
    #[schema(schema_with = role)]
    role: Role,
}

/// Change the role of a member
///
/// API keys that the member created on the caller's account have the rights of the new role from their next use on.
#[utoipa::path(
    patch, path = "/v1/team/members/{id}", tag = "Teams", operation_id = "updateTeamMember",
    params(IdPath<MembershipId>), request_body = RoleChange,
    responses((status = 200, description = "The membership", body = Membership), Restricted, Body, NoMembership, Database),
)]
async fn set_role(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<MembershipId>,
    Json(body): Json<RoleChange>,
) -> Result<Answer<Membership>> {
    let mut tx = app.begin_change(caller.account_id).await?;
    let changed = members::set_role(&mut tx, caller.account_id, path.id()?, body.role, &caller.actor).await?;
    let (membership, is_changed) = changed.ok_or_else(not_found::<MembershipId>)?;
    // A change without an effect does not count.
    if is_changed {
        tx.commit().await?;
    }
    Ok(Answer(membership.into()))
}

/// Remove a member
///
/// Also revokes every active API key that the member created on the caller's account.
#[utoipa::path(
    delete, path = "/v1/team/members/{id}", tag = "Teams", operation_id = "removeTeamMember",
    params(IdPath<MembershipId>),
    responses((status = 204, description = "The member is removed"), Restricted, NoMembership, Database),
)]
async fn remove(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<MembershipId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    let removed = members::remove(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if removed { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<MembershipId>()) }
}

/// Owner of a team that the caller is a member of
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "owner_account_id": "acc_019aa1c8-52f0-7bd6-8a0e-6a0b4a4f7d11", "owner_email": "grace@example.com",
    "owner_name": "Grace", "role": "member", "membership_id": "mem_019aa1d3-7c41-7e0f-a9e4-0f6b6c1f0a52",
}))]
pub struct TeamOwner {
    /// Account that owns the team; the value to send in `X-Service-Account`
    #[schema(value_type = String)]
    owner_account_id: AccountId,
    /// E-mail address of the owner
    owner_email: String,
    /// Display name of the owner
    #[schema(required = true)]
    owner_name: Option<String>,
    /// Role of the caller in the team
    #[schema(schema_with = role)]
    role: Role,
    /// Membership ID of the caller
    #[schema(value_type = String)]
    membership_id: MembershipId,
}

/// Every account has an address and a name, so neither is missing here.
impl From<members::TeamOwner> for TeamOwner {
    fn from(owner: members::TeamOwner) -> Self {
        Self {
            owner_account_id: owner.owner_account_id,
            owner_email: owner.owner_email,
            owner_name: Some(owner.owner_name),
            role: owner.role,
            membership_id: owner.membership_id,
        }
    }
}

type TeamOwnerList = List<TeamOwner>;

impl ListItem for TeamOwner {
    const LIST: &'static str = "TeamOwnerList";
    const MEANING: &'static str = "Owners of the teams that the caller is a member of, newest first";
}

/// List team owners
///
/// Returns the owners of the teams that the caller is a member of.
#[utoipa::path(
    get, path = "/v1/team/owners", tag = "Teams", operation_id = "listTeamOwners",
    responses((status = 200, description = "The owners", body = TeamOwnerList), Restricted, Database),
)]
async fn list_owners(caller: Caller, State(app): State<App>) -> Result<Answer<TeamOwnerList>> {
    let owners = members::owners(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(owners.into_iter().map(TeamOwner::from).collect()))
}

/// A team
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "team_019aa1d0-0f2c-7d1c-93cb-61f0c2a9d3b8", "name": "Ada's team", "slug": null,
    "owner_account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1", "created_at": "2026-11-20T18:05:00.123Z",
    "updated_at": "2026-11-20T18:05:00.123Z",
}))]
struct Team {
    /// Team ID
    #[schema(value_type = String)]
    id: TeamId,
    /// Name of the team
    name: String,
    /// Always null
    #[schema(value_type = Option<String>, required = true)]
    slug: Option<()>,
    /// Account that owns the team
    #[schema(value_type = String)]
    owner_account_id: AccountId,
    /// Time the team was created (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Time the team was last renamed (RFC 3339)
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<teams::Team> for Team {
    fn from(team: teams::Team) -> Self {
        Self {
            id: team.id,
            name: team.name,
            slug: None,
            owner_account_id: team.owner_account_id,
            created_at: team.created_at,
            updated_at: team.updated_at,
        }
    }
}

type TeamList = List<Team>;

impl ListItem for Team {
    const LIST: &'static str = "TeamList";
    const MEANING: &'static str = "Teams that the caller owns";
}

/// List teams
///
/// Returns the team that the caller owns; every account owns one.
#[utoipa::path(
    get, path = "/v1/teams", tag = "Teams", operation_id = "listTeams",
    responses((status = 200, description = "The teams", body = TeamList), Restricted, Database),
)]
async fn list(caller: Caller, State(app): State<App>) -> Result<Answer<TeamList>> {
    let owned = teams::list(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(owned.into_iter().map(Team::from).collect()))
}

/// Request body of a team update
#[derive(Deserialize, ToSchema)]
#[schema(as = UpdateTeam, example = json!({"name": "Engine room"}))]
struct TeamChange {
    /// Name of the team
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// Result of a team update
#[derive(Serialize, ToSchema)]
#[schema(as = UpdatedTeam)]
struct ChangedTeam {
    team: Team,
}

/// Rename a team
#[utoipa::path(
    patch, path = "/v1/teams/{id}", tag = "Teams", operation_id = "updateTeam",
    params(IdPath<TeamId>),
    request_body = TeamChange,
    responses((status = 200, description = "The team", body = ChangedTeam), Restricted, Body, NoTeam, Database),
)]
async fn rename(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<TeamId>,
    Json(body): Json<TeamChange>,
) -> Result<Answer<ChangedTeam>> {
    let name = TeamName::parse(&body.name, &app.config.limits)?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let renamed = teams::rename(&mut tx, caller.account_id, path.id()?, &name, &caller.actor).await?;
    tx.commit().await?;
    let team = renamed.ok_or_else(not_found::<TeamId>)?.into();
    Ok(Answer(ChangedTeam { team }))
}

impl From<InviteError> for Problem {
    fn from(error: InviteError) -> Self {
        match error {
            InviteError::Invalid(invalid) => invalid.into(),
            InviteError::AlreadyMember => Self::new(&kinds::CONFLICT, error.to_string()),
            InviteError::NoAccount => Self::account_gone(),
            InviteError::Database(error) => error.into(),
        }
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::BadToken => Self::bad_link(),
            AcceptError::OtherAddress | AcceptError::AlreadyMember => Self::new(&kinds::CONFLICT, error.to_string()),
            AcceptError::NoAccount => Self::account_gone(),
            AcceptError::Database(error) => error.into(),
        }
    }
}
