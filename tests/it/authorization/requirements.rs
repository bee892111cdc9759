//! Rights that each route requires (contract: authorization), taken from the contract and not from the service's table.

use kitfleet_api::permissions::ROUTES;
use reqwest::Method;

use crate::support::routes::{Route, sample};

pub(super) enum Requirement {
    NoCredential,
    MetricsToken,
    StaffCredential,
    CustomerCredential(Needs),
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Needs {
    pub(super) scope: &'static str,
    /// Also the least role when the account header applies.
    pub(super) team: Option<(&'static str, TeamRole)>,
    pub(super) person: bool,
    pub(super) step_up: bool,
    /// True when a device's key works on the free tier.
    pub(super) free_device: bool,
    /// A key of a team member works although the route ignores the account header.
    pub(super) members_key: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TeamRole {
    Own,
    Stranger,
    Member,
    Admin,
}

pub(super) fn needs(scope: &'static str) -> Needs {
    Needs { scope, ..Needs::default() }
}

fn web_session() -> Needs {
    Needs { person: true, ..needs("account_owner") }
}

impl Needs {
    pub(super) fn for_team(self, team_role: TeamRole) -> Self {
        Self { team: Some((self.scope, team_role)), ..self }
    }

    pub(super) fn or_free_device(self) -> Self {
        Self { free_device: true, ..self }
    }

    fn or_members_key(self) -> Self {
        Self { members_key: true, ..self }
    }

    fn with_step_up(self) -> Self {
        Self { step_up: true, ..self }
    }
}

/// Contract: authorization 4 to 12.
#[expect(clippy::match_same_arms, reason = "one arm for each area")]
pub(super) fn asks(method: &Method, path: &str) -> Requirement {
    use TeamRole::{Admin, Member};
    let segments: Vec<_> = path.split('/').skip(1).collect();
    Requirement::CustomerCredential(match (method.as_str(), &segments[..]) {
        // The state contains cookies and gives control of the session, so team members need the right to control it.
        ("GET", ["v1", "sessions", _, "state" | "cookies" | "pages" | "live-links"])
        | ("POST", ["v1", "sessions", _, "live-tickets"]) => {
            Needs { team: Some(("write:sessions", Admin)), ..needs("read:sessions").or_free_device() }
        }
        // Downloads have content of pages, as the state does.
        ("GET", ["v1", "sessions", _, "downloads", ..]) => {
            Needs { team: Some(("write:sessions", Admin)), ..needs("read:sessions").or_free_device() }
        }
        // So do recordings.
        (
            "GET",
            ["v1", "sessions", _, "timeline" | "frames" | "console" | "requests" | "har" | "trace" | "trace-links", ..],
        ) => Needs { team: Some(("write:sessions", Admin)), ..needs("read:sessions").or_free_device() },
        // The ticket in the request is the credential.
        ("GET", ["v1", "sessions", _, "live"] | ["traces", _]) | ("POST", ["v1", "live-links", "follow"]) => {
            return Requirement::NoCredential;
        }
        // The rules of `/v1/sessions*` do not cover these routes.
        (_, ["v1", "live-links", ..]) => needs("write:sessions").for_team(Admin),
        (_, ["v1", "trace-links", ..]) => needs("write:sessions").for_team(Admin).or_free_device(),
        ("GET", ["v1", "sessions", ..]) => needs("read:sessions").for_team(Member).or_free_device(),
        (_, ["v1", "sessions", ..]) => needs("write:sessions").for_team(Admin).or_free_device(),
        // Messages reveal as much as the browser's contents, so members may not read them.
        ("GET", ["v1", "agent-sessions", ..]) => needs("read:agents").for_team(Admin).or_free_device(),
        (_, ["v1", "agent-sessions", ..]) => needs("write:agents").for_team(Admin).or_free_device(),
        // Recipes always belong to the caller; the account header has no effect.
        ("GET", ["v1", "recipes", ..]) => needs("read:agents"),
        (_, ["v1", "recipes", ..]) => needs("write:agents"),
        // The document contains cookies, as the state does.
        ("GET", ["v1", "profiles", _, "export"]) => needs("write:profiles").for_team(Admin).or_free_device(),
        ("GET", ["v1", "profiles", ..]) => needs("read:profiles").for_team(Member).or_free_device(),
        (_, ["v1", "profiles", ..]) => needs("write:profiles").for_team(Admin).or_free_device(),
        // The rules of `/v1/profiles*` do not cover these routes.
        (_, ["v1", "profile-snapshots", ..]) => needs("write:profiles").for_team(Admin),
        ("GET", ["v1", "api-keys", ..]) => needs("read").for_team(Member),
        (_, ["v1", "api-keys", ..]) => needs("account_owner").for_team(Admin),
        ("GET", ["v1", "account", "audit-log", ..]) => needs("read:audit").for_team(Member),
        ("GET", ["v1", "account", "notifications", ..]) => needs("read").for_team(Member),
        ("GET", ["v1", "webhooks" | "webhook-deliveries", ..]) => needs("read:webhooks").for_team(Member),
        (_, ["v1", "webhooks" | "webhook-deliveries", ..]) => needs("account_owner").for_team(Admin),
        ("GET", ["v1", "usage", ..]) => needs("read:usage").for_team(Member).or_free_device(),
        ("GET", ["v1", "account", "email-preferences"]) => needs("account_owner").for_team(Member),
        ("PUT", ["v1", "account", "email-preferences"]) => needs("account_owner").for_team(Admin),
        ("GET", ["v1", "account", "me"]) => needs("read").or_free_device().or_members_key(),
        ("PATCH", ["v1", "account", "me"]) => needs("account_owner"),
        ("DELETE", ["v1", "account", "me"]) => web_session().with_step_up(),
        // The token in the request is the credential.
        ("POST", ["v1", "account", "email", "confirm"]) => return Requirement::NoCredential,
        ("POST", ["v1", "account", "password" | "email"]) => web_session().with_step_up(),
        (_, ["v1", "account", "identities", ..]) => needs("account_owner"),
        // A step reveals as much as the transcript.
        ("GET", ["v1", "account", "approvals"]) => needs("read:agents").for_team(Admin).or_free_device(),
        (_, ["v1", "account", "me", ..]) => needs("account_owner"),
        // The current web session is known only to a request that authenticates with one.
        ("DELETE", ["v1", "account", "web-sessions"]) => web_session(),
        (_, ["v1", "account", "web-sessions", ..]) => needs("account_owner"),
        ("GET", ["v1", "account", "mfa"]) => needs("read"),
        (_, ["v1", "account", "mfa", "enroll" | "verify"]) => web_session(),
        (_, ["v1", "account", "mfa", ..]) => web_session().with_step_up(),
        ("GET", ["v1", "team" | "teams", ..]) => needs("read"),
        (_, ["v1", "team" | "teams", ..]) => needs("account_owner"),
        // Payment providers sign their requests.
        ("POST", ["v1", "billing", "card-webhook" | "crypto-webhook"]) => return Requirement::NoCredential,
        (_, ["v1", "billing", ..]) => needs("account_owner"),
        (_, ["v1", "oauth", "clients", ..]) => needs("account_owner"),
        (_, ["v1", "auth", "mfa", "step-up"]) => web_session(),
        (_, ["v1", "auth", "cli-authorize", "bind-device-code" | "{user_code}"]) => web_session(),
        (_, ["v1", "auth", ..] | ["v1", "oauth", "token"]) => return Requirement::NoCredential,
        (_, ["v1", "status", ..] | ["status", ..]) => return Requirement::NoCredential,
        ("GET", ["metrics"]) => return Requirement::MetricsToken,
        (_, ["v1", "admin" | "mac-nodes", ..]) => return Requirement::StaffCredential,
        ("GET", ["v1", "archetypes"] | ["docs" | "errors" | "live", ..] | ["team", "accept"] | [_]) => {
            return Requirement::NoCredential;
        }
        _ => panic!("add the contract's rule for {method} {path}"),
    })
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Usable {
    pub(super) field: &'static str,
    pub(super) prefix: &'static str,
    pub(super) scope: &'static str,
    /// Required when the account header applies.
    pub(super) role: TeamRole,
}

/// Contract: authorization 15. `None` for a field whose resource the request does not use.
pub(super) fn named_by(field: &str) -> Option<Usable> {
    let role = TeamRole::Admin;
    match field {
        "profile_id" => Some(Usable { field: "profile_id", prefix: "prof", scope: "write:profiles", role }),
        "proxy_id" => Some(Usable { field: "proxy_id", prefix: "prx", scope: "write:agents", role }),
        // The request does not use what these fields name: the client of a human, an OAuth client, the origin of a profile's
        // document, and resources in requests of staff and payment providers. A recipe's source requires an admin of that
        // account (recipes 1).
        "client_id" | "source_profile_id" | "source_account_id" | "agent_session_id" | "delivery_ids"
        | "endpoint_id" | "account_id" | "order_id" | "payment_id" => None,
        _ => panic!("add the contract's rule for the body field {field}"),
    }
}

/// For each route that requires a customer's credential.
pub fn protected() -> Vec<Route> {
    sampled(|asks| matches!(asks, Requirement::CustomerCredential(_)))
}

/// For each route that requires a staff credential.
pub fn for_staff() -> Vec<Route> {
    sampled(|asks| matches!(asks, Requirement::StaffCredential))
}

/// For each route that honors the account header.
pub fn honoring() -> Vec<Route> {
    sampled(|asks| matches!(asks, Requirement::CustomerCredential(Needs { team: Some(_), .. })))
}

/// For each route that ignores the account header.
pub fn ignoring() -> Vec<Route> {
    sampled(|asks| {
        matches!(asks, Requirement::NoCredential | Requirement::CustomerCredential(Needs { team: None, .. }))
    })
}

pub(super) fn sampled(asked: impl Fn(&Requirement) -> bool) -> Vec<Route> {
    let such = ROUTES.iter().filter(|route| asked(&asks(&route.method, &route.path)));
    such.map(|route| sample(&route.method, &route.path)).collect()
}
