//! The authorization matrix (contract: authorization): every route there is, asked by every kind of credential, on a paid tier
//! and on the free one, for its own account and for another whose team it is on or not.
//!
//! What is expected is this file's own reading of the contract, [`asks`] and [`expected`], and not the service's table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use kitfleet_api::permissions::{self, ROUTES};
use kitfleet_domain::accounts::Tier;
use kitfleet_domain::api_keys::{self, KeyKind, NewKey, Scopes};
use kitfleet_domain::audit::{Actor, Origin};
use kitfleet_domain::ids::AccountId;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::oauth;
use crate::support::crypto_processor::CryptoProcessor;
use crate::support::routes::{Route, sample};
use crate::support::{Answer, App, Client, at_once, members, unknown_id};

/// The matrix as it was reviewed.
const REVIEWED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/authorization.txt");

/// What the contract asks of a route's caller.
enum Asks {
    Nothing,
    TheMetricsToken,
    AStaffCredential,
    ACredential(Needs),
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says something of its own, and no two are one")]
struct Needs {
    /// What the credential has to satisfy.
    scope: &'static str,
    /// What it has to satisfy, and its owner has to be, where the account header counts.
    team: Option<(&'static str, Standing)>,
    /// Whether it has to be a web session.
    person: bool,
    /// Whether a second factor's proof has to be fresh.
    step_up: bool,
    /// Whether a desktop app's will do on the free tier.
    free_device: bool,
    /// Whether a key will do that a member of the account's team made, where the account header does not count.
    members_key: bool,
}

/// How a caller stands with the account of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// There is no header.
    Own,
    Stranger,
    Member,
    Admin,
}

const STANDINGS: [Standing; 4] = [Standing::Own, Standing::Stranger, Standing::Member, Standing::Admin];

fn needs(scope: &'static str) -> Needs {
    Needs { scope, ..Needs::default() }
}

fn a_person() -> Needs {
    Needs { person: true, ..needs("account_owner") }
}

impl Needs {
    fn for_team(self, standing: Standing) -> Self {
        Self { team: Some((self.scope, standing)), ..self }
    }

    fn or_free_device(self) -> Self {
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
///
/// # Panics
/// When it says nothing of this route that was read yet.
#[expect(clippy::match_same_arms, reason = "an arm tells of an area")]
fn asks(method: &Method, path: &str) -> Asks {
    use Standing::{Admin, Member};
    let segments: Vec<_> = path.split('/').skip(1).collect();
    Asks::ACredential(match (method.as_str(), &segments[..]) {
        // The state shows cookies and claims the session: for others only as far as they may drive it.
        ("GET", ["v1", "sessions", _, "state" | "live-links"]) | ("POST", ["v1", "sessions", _, "live-tickets"]) => {
            Needs { team: Some(("write:sessions", Admin)), ..needs("read:sessions").or_free_device() }
        }
        // Its ticket is what it is opened by.
        ("GET", ["v1", "sessions", _, "live"]) | ("POST", ["v1", "live-links", "follow"]) => return Asks::Nothing,
        // They are none of `/v1/sessions*`.
        (_, ["v1", "live-links", ..]) => needs("write:sessions").for_team(Admin),
        ("GET", ["v1", "sessions", ..]) => needs("read:sessions").for_team(Member).or_free_device(),
        (_, ["v1", "sessions", ..]) => needs("write:sessions").for_team(Admin).or_free_device(),
        // What is said there is like what a browser shows: a member may see none of it.
        ("GET", ["v1", "agent-sessions", ..]) => needs("read:agents").for_team(Admin).or_free_device(),
        (_, ["v1", "agent-sessions", ..]) => needs("write:agents").for_team(Admin).or_free_device(),
        // They are the caller's own, whatever header there is.
        ("GET", ["v1", "recipes", ..]) => needs("read:agents"),
        (_, ["v1", "recipes", ..]) => needs("write:agents"),
        // A document holds cookies, as the state does.
        ("GET", ["v1", "profiles", _, "export"]) => needs("write:profiles").for_team(Admin).or_free_device(),
        ("GET", ["v1", "profiles", ..]) => needs("read:profiles").for_team(Member).or_free_device(),
        (_, ["v1", "profiles", ..]) => needs("write:profiles").for_team(Admin).or_free_device(),
        // They are none of `/v1/profiles*`.
        (_, ["v1", "profile-snapshots", ..]) => needs("write:profiles").for_team(Admin),
        ("GET", ["v1", "api-keys", ..]) => needs("read").for_team(Member),
        (_, ["v1", "api-keys", ..]) => needs("account_owner").for_team(Admin),
        ("GET", ["v1", "account", "audit-log", ..]) => needs("read:audit").for_team(Member),
        ("GET", ["v1", "account", "notifications", ..]) => needs("read").for_team(Member),
        ("GET", ["v1", "webhooks", ..]) => needs("read:webhooks").for_team(Member),
        (_, ["v1", "webhooks" | "webhook-deliveries", ..]) => needs("account_owner").for_team(Admin),
        ("GET", ["v1", "usage", ..]) => needs("read:usage").for_team(Member).or_free_device(),
        ("GET", ["v1", "account", "email-preferences"]) => needs("account_owner").for_team(Member),
        ("PUT", ["v1", "account", "email-preferences"]) => needs("account_owner").for_team(Admin),
        ("GET", ["v1", "account", "me"]) => needs("read").or_free_device().or_members_key(),
        ("PATCH", ["v1", "account", "me"]) => needs("account_owner"),
        ("DELETE", ["v1", "account", "me"]) => a_person().with_step_up(),
        (_, ["v1", "account", "me", ..]) => needs("account_owner"),
        // Which of them is the current one only a web session can say.
        ("DELETE", ["v1", "account", "web-sessions"]) => a_person(),
        (_, ["v1", "account", "web-sessions", ..]) => needs("account_owner"),
        ("GET", ["v1", "account", "mfa"]) => needs("read"),
        (_, ["v1", "account", "mfa", "enroll" | "verify"]) => a_person(),
        (_, ["v1", "account", "mfa", ..]) => a_person().with_step_up(),
        ("GET", ["v1", "team" | "teams", ..]) => needs("read"),
        (_, ["v1", "team" | "teams", ..]) => needs("account_owner"),
        // Payment providers sign what they send.
        ("POST", ["v1", "billing", "card-webhook" | "crypto-webhook"]) => return Asks::Nothing,
        (_, ["v1", "billing", ..]) => needs("account_owner"),
        (_, ["v1", "oauth", "clients", ..]) => needs("account_owner"),
        (_, ["v1", "auth", "mfa", "step-up"]) => a_person(),
        (_, ["v1", "auth", "cli-authorize", "bind-device-code" | "{user_code}"]) => a_person(),
        (_, ["v1", "auth", ..] | ["v1", "oauth", "token"]) => return Asks::Nothing,
        (_, ["v1", "status", ..] | ["status", ..]) => return Asks::Nothing,
        ("GET", ["metrics"]) => return Asks::TheMetricsToken,
        (_, ["v1", "admin" | "mac-nodes", ..]) => return Asks::AStaffCredential,
        ("GET", ["v1", "archetypes"] | ["docs" | "errors" | "live", ..] | ["team", "accept"] | [_]) => {
            return Asks::Nothing;
        }
        _ => panic!("what does the contract say of {method} {path}?"),
    })
}

/// A resource that a body can name, for the request to use it.
#[derive(Debug, Clone, Copy)]
struct Usable {
    field: &'static str,
    /// How its ids begin.
    prefix: &'static str,
    /// What the caller's credential has to satisfy besides what the route asks.
    scope: &'static str,
    /// What the caller has to be where the account header counts.
    role: Standing,
}

/// Contract: authorization 15. `None` for a field that does not let the caller use a resource.
///
/// # Panics
/// When it says nothing of this field that was read yet.
fn named_by(field: &str) -> Option<Usable> {
    let role = Standing::Admin;
    match field {
        "profile_id" => Some(Usable { field: "profile_id", prefix: "prof", scope: "write:profiles", role }),
        "proxy_id" => Some(Usable { field: "proxy_id", prefix: "prx", scope: "write:agents", role }),
        // The name of a human's client and that of an OAuth client, which proves itself; where a profile's document comes from, which is
        // not looked up; what a recipe copies from, for an admin on that account (recipes 1); what staff name; what payment providers name.
        "client_id" | "source_profile_id" | "source_account_id" | "agent_session_id" | "delivery_ids"
        | "endpoint_id" | "account_id" | "order_id" | "payment_id" => None,
        _ => panic!("what does the contract say of a body's {field}?"),
    }
}

/// A row of the matrix: a route, and what its request says where its caller's right depends on that.
struct Row {
    route: &'static permissions::Route,
    says: Says,
}

#[derive(Debug, Clone, Copy)]
enum Says {
    /// What the route's sample says.
    Sample,
    /// A resource, which the request uses.
    Naming(Usable),
    /// That the ticket is for a controller (contract: live 24).
    Controller,
}

impl Row {
    /// Every row. The fields are those of the contract's bodies.
    async fn all(app: &App) -> Vec<Self> {
        let contract = app.stranger().get("/openapi.json").await.expect(200).body;
        let fields_of = |route: &permissions::Route| {
            let operation = &contract["paths"][&route.path][route.method.as_str().to_lowercase()];
            let mut contents = operation["requestBody"]["content"].as_object().into_iter().flatten();
            let schema = contents.next().map_or(&Value::Null, |(_, content)| &content["schema"]);
            let schema = schema["$ref"].as_str().map_or(schema, |named| {
                contract.pointer(named.trim_start_matches('#')).unwrap_or_else(|| panic!("there is no {named}"))
            });
            let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
            names.filter(|name| name.ends_with("_id") || name.ends_with("_ids")).collect::<Vec<_>>()
        };
        let mut rows = Vec::new();
        for route in ROUTES.iter() {
            rows.push(Self { route, says: Says::Sample });
            if route.path.ends_with("/live-tickets") {
                rows.push(Self { route, says: Says::Controller });
            }
            let usable = fields_of(route).into_iter().filter_map(|field| named_by(&field));
            rows.extend(usable.map(|named| Self { route, says: Says::Naming(named) }));
        }
        rows
    }

    /// A harmless request of this row.
    fn request(&self) -> Route {
        let sample = sample(&self.route.method, &self.route.path);
        match self.says {
            Says::Sample => sample,
            Says::Naming(Usable { field, prefix, .. }) => {
                Route { body: Some(json!({ field: unknown_id(prefix) })), ..sample }
            }
            Says::Controller => Route { body: Some(json!({"role": "controller"})), ..sample },
        }
    }

    fn asks(&self) -> Asks {
        match self.says {
            Says::Sample | Says::Naming(_) => asks(&self.route.method, &self.route.path),
            Says::Controller => Asks::ACredential(needs("write:sessions").for_team(Standing::Admin).or_free_device()),
        }
    }

    fn name(&self) -> String {
        let says = match self.says {
            Says::Sample => String::new(),
            Says::Naming(Usable { field, .. }) => format!(" with a {field}"),
            Says::Controller => " as a controller".to_owned(),
        };
        format!("{:7}{}{says}", self.route.method.as_str(), self.route.path)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nobody,
    Key,
    Device,
    OauthToken,
    WebSession,
    /// A key that somebody made who stands so with the account that it is on.
    TeamsKey(Standing),
}

/// A column of the matrix.
#[derive(Clone)]
struct Credential {
    kind: Kind,
    scopes: &'static [&'static str],
    client: Client,
}

impl Credential {
    fn may_say(&self, says: Says, standing: Standing) -> bool {
        let Says::Naming(named) = says else { return true };
        self.satisfies(named.scope) && (standing == Standing::Own || standing >= named.role)
    }

    /// Contract: authorization 6. A broad scope satisfies its granular counterparts, `account_owner` all, and `admin` is its
    /// alias.
    fn satisfies(&self, needed: &str) -> bool {
        self.scopes.iter().any(|held| match *held {
            "account_owner" | "admin" => true,
            "read" | "write" => needed.split(':').next() == Some(held),
            granular => granular == needed,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    LetIn,
    /// 401.
    Unknown,
    /// 403.
    Refused,
    /// 404: no such route, for them.
    Absent,
}

fn expected(asks: &Asks, caller: &Credential, free_tier: bool, standing: Standing) -> Verdict {
    let needs = match asks {
        Asks::Nothing => return Verdict::LetIn,
        Asks::TheMetricsToken => return Verdict::Unknown,
        Asks::AStaffCredential if caller.kind == Kind::Nobody => return Verdict::Unknown,
        Asks::AStaffCredential => return Verdict::Absent,
        Asks::ACredential(needs) => needs,
    };
    let right_kind = match caller.kind {
        Kind::Nobody => return Verdict::Unknown,
        Kind::WebSession => true,
        // It does what its maker may through the header, on that account and no other.
        Kind::TeamsKey(maker) => {
            let opens = needs.team.is_some_and(|(scope, least)| maker >= least && caller.satisfies(scope));
            let own = opens && standing == Standing::Own || needs.members_key && caller.satisfies(needs.scope);
            let let_in = own && !free_tier;
            return if let_in { Verdict::LetIn } else { Verdict::Refused };
        }
        Kind::Device => !needs.person && (needs.free_device || !free_tier),
        Kind::Key | Kind::OauthToken => !needs.person && !free_tier,
    };
    let right_account = match needs.team {
        Some((scope, least)) if standing != Standing::Own => standing >= least && caller.satisfies(scope),
        _ => caller.satisfies(needs.scope),
    };
    if right_kind && right_account { Verdict::LetIn } else { Verdict::Refused }
}

fn observed(asks: &Asks, answer: &Answer) -> Verdict {
    match answer.status.as_u16() {
        401 => Verdict::Unknown,
        403 => Verdict::Refused,
        404 if matches!(asks, Asks::AStaffCredential) => Verdict::Absent,
        status => {
            assert!(status < 500, "{status}: {}", answer.body);
            Verdict::LetIn
        }
    }
}

/// What a cell of the table shows: the verdicts for a caller's own account, a stranger's, and those whose team they are
/// on as member and as admin.
const LEGEND: [(char, [bool; 4], &str); 6] = [
    ('+', [true, true, true, true], "let in; the account header is ignored"),
    ('m', [true, false, true, true], "let in; with the account header as member or admin of that account's team"),
    ('a', [true, false, false, true], "let in; with the account header as admin of that account's team"),
    ('o', [true, false, false, false], "let in; not with the account header"),
    ('t', [false, false, false, true], "403; let in with the account header as admin of that account's team"),
    ('-', [false, false, false, false], "403"),
];

fn letter(verdicts: [Verdict; 4]) -> char {
    if verdicts == [Verdict::Unknown; 4] {
        return '?';
    }
    if verdicts == [Verdict::Absent; 4] {
        return '!';
    }
    let let_in = verdicts.map(|verdict| verdict == Verdict::LetIn);
    let found = LEGEND.iter().find(|(_, shown, _)| *shown == let_in);
    found.unwrap_or_else(|| panic!("no letter for {verdicts:?}")).0
}

/// An account that calls, and those that it calls about.
struct Caller {
    account: AccountId,
    others: BTreeMap<Standing, AccountId>,
}

impl App {
    async fn caller(&self, tier: Tier) -> Caller {
        let account = self.account(Tier::Enterprise).await;
        let mut others = BTreeMap::new();
        for (standing, role) in
            [(Standing::Stranger, None), (Standing::Member, Some("member")), (Standing::Admin, Some("admin"))]
        {
            let owner = self.account(Tier::Enterprise).await;
            others.insert(standing, owner);
            let Some(role) = role else { continue };
            sqlx::query(
                "insert into team_members (id, owner_account_id, member_account_id, role, invited_by_account_id, invited_at)
                 values ($1, $2, $3, $4, $2, now())",
            )
            .bind(Uuid::now_v7())
            .bind(owner.as_uuid())
            .bind(account.as_uuid())
            .bind(role)
            .execute(&self.database.pool)
            .await
            .expect("a member");
        }
        self.run(&["account", "set-tier", &account.to_string(), tier.name()]).await.code(0);
        Caller { account, others }
    }

    /// One credential of each kind, with a name for the table.
    async fn credentials(&self, account: AccountId) -> Vec<(String, Credential)> {
        let mut all =
            vec![("nobody".to_owned(), Credential { kind: Kind::Nobody, scopes: &[], client: self.stranger() })];
        let mut add = |kind, name: &str, scopes: &'static [&str], client| {
            let name =
                format!("{name}, {}", if scopes.is_empty() { "no scope".to_owned() } else { scopes.join(" and ") });
            all.push((name, Credential { kind, scopes, client }));
        };
        for scopes in KEYS {
            add(Kind::Key, "key", scopes, self.key_of(account, KeyKind::Customer, scopes).await);
        }
        for scopes in [&["read"][..], &["account_owner"]] {
            add(Kind::Device, "device", scopes, self.key_of(account, KeyKind::Device, scopes).await);
            let person = self.device_of(account).await;
            let token = oauth::token(self, &oauth::created(&person, scopes).await).await;
            add(Kind::OauthToken, "OAuth token", scopes, token);
        }
        for (standing, role) in [(Standing::Member, "member"), (Standing::Admin, "admin")] {
            for scopes in [&["read"][..], &["account_owner"]] {
                let client = self.key_of_member(account, role, scopes).await;
                add(Kind::TeamsKey(standing), &format!("key that a team's {role} made"), scopes, client);
            }
        }
        add(Kind::WebSession, "web session", &["account_owner"], self.device_of(account).await);
        all
    }

    /// A key on the account, made by somebody on its team who has this role since.
    async fn key_of_member(&self, account: AccountId, role: &str, scopes: &[&str]) -> Client {
        let member = self.account(Tier::Enterprise).await;
        self.join_team(account, member, "admin").await;
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let (maker, scopes) = (Actor::person(member, &Origin::default()), Scopes::parse(scopes).expect("known scopes"));
        let minted = api_keys::mint(&mut conn, account, &maker, NewKey::customer("matrix", &scopes)).await;
        let (_, secret) = minted.expect("a key");
        let demoted = sqlx::query("update team_members set role = $2 where member_account_id = $1");
        demoted.bind(member.as_uuid()).bind(role).execute(&mut *conn).await.expect("a role");
        Client::new(&self.base_url, Some(secret.reveal()))
    }

    async fn key_of(&self, account: AccountId, kind: KeyKind, scopes: &[&str]) -> Client {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let parsed = Scopes::parse(if scopes.is_empty() { &["read"] } else { scopes }).expect("known scopes");
        let new = NewKey { kind, ..NewKey::customer("matrix", &parsed) };
        let (key, secret) = api_keys::mint(&mut conn, account, &Actor::System, new).await.expect("a key");
        if scopes.is_empty() {
            self.execute("update api_keys set scopes = '{}' where id = $1", key.id.as_uuid()).await;
        }
        Client::new(&self.base_url, Some(secret.reveal()))
    }
}

/// The scopes of the keys: none, each alone (contract: authorization 6), and pairs.
const KEYS: [&[&str]; 18] = [
    &[],
    &["read"],
    &["write"],
    &["account_owner"],
    &["admin"],
    &["read:audit"],
    &["read:sessions"],
    &["write:sessions"],
    &["read:profiles"],
    &["write:profiles"],
    &["read:webhooks"],
    &["read:usage"],
    &["read:agents"],
    &["write:agents"],
    &["read", "write"],
    &["read:audit", "write:sessions"],
    &["write:sessions", "write:profiles"],
    &["write:agents", "write:profiles"],
];

/// A harmless request of every route that wants an account's credential.
pub fn protected() -> Vec<Route> {
    sampled(|asks| matches!(asks, Asks::ACredential(_)))
}

/// Of those that want a credential of staff.
pub fn for_staff() -> Vec<Route> {
    sampled(|asks| matches!(asks, Asks::AStaffCredential))
}

/// Of those that honor the account header.
pub fn honoring() -> Vec<Route> {
    sampled(|asks| matches!(asks, Asks::ACredential(Needs { team: Some(_), .. })))
}

/// Of those that do not.
pub fn ignoring() -> Vec<Route> {
    sampled(|asks| matches!(asks, Asks::Nothing | Asks::ACredential(Needs { team: None, .. })))
}

fn sampled(asked: impl Fn(&Asks) -> bool) -> Vec<Route> {
    let such = ROUTES.iter().filter(|route| asked(&asks(&route.method, &route.path)));
    such.map(|route| sample(&route.method, &route.path)).collect()
}

/// What a credential is told on every route, as a column of letters. Every verdict is held against the expected one.
async fn column(
    rows: Arc<Vec<Row>>,
    caller: Credential,
    others: BTreeMap<Standing, AccountId>,
    free_tier: bool,
) -> String {
    let mut letters = String::new();
    for row in rows.iter() {
        let (asks, request) = (row.asks(), row.request());
        let mut verdicts = Vec::new();
        for standing in STANDINGS {
            let mut builder = caller.client.request_of(&request);
            if let Some(owner) = others.get(&standing) {
                builder = builder.header("x-service-account", owner.to_string());
            }
            let answer = caller.client.send(builder).await;
            let observed = observed(&asks, &answer);
            let expected = match expected(&asks, &caller, free_tier, standing) {
                Verdict::LetIn if !caller.may_say(row.says, standing) => Verdict::Refused,
                verdict => verdict,
            };
            let Credential { kind, scopes, .. } = &caller;
            assert_eq!(
                observed,
                expected,
                "{}: {kind:?} {scopes:?}, {standing:?}, free tier {free_tier}: {} {}",
                row.name(),
                answer.status,
                answer.body
            );
            verdicts.push(observed);
        }
        letters.push(letter(verdicts.try_into().expect("a verdict for each standing")));
    }
    letters
}

fn table(rows: &[Row], names: &[String], columns: &[String]) -> String {
    let mut table = "Who may do what. A test asks every route and asserts every cell; ./ops/test --bless writes this file anew.\n\n".to_owned();
    for (letter, _, meaning) in LEGEND {
        let _ = writeln!(table, "  {letter}  {meaning}");
    }
    let _ = writeln!(table, "  !  404: for customers there is no such route\n  ?  401\n");
    let marks: String = ('A'..='Z').chain('a'..='z').take(names.len()).collect();
    for (mark, name) in marks.chars().zip(names) {
        let _ = writeln!(table, "  {mark}  {name}");
    }
    let _ = writeln!(table, "\n{:60}{:len$}  free tier", "", "paid tier", len = marks.len());
    let _ = writeln!(table, "{:60}{marks}  {marks}", "");
    for (nth, row) in rows.iter().enumerate() {
        let cells: Vec<_> = columns.iter().filter_map(|column| column.chars().nth(nth)).collect();
        let (paid, free) = cells.split_at(names.len());
        let name = row.name();
        let _ = writeln!(table, "{name:60}{}  {}", paid.iter().collect::<String>(), free.iter().collect::<String>());
    }
    table
}

#[tokio::test]
async fn every_cell_of_the_matrix_is_as_the_contract_says() {
    let app = App::simulated()
        .with_second_factors()
        .set("sessions.direct_driver", "real")
        .set("metrics.scrape_token", "the deployment's")
        .set("rate_limits.credential_per_minute", "1000000")
        .start()
        .await;
    let rows = Arc::new(Row::all(&app).await);
    let (mut names, mut columns) = (Vec::new(), Vec::new());
    for tier in [Tier::Enterprise, Tier::Free] {
        let Caller { account, others } = app.caller(tier).await;
        let credentials = app.credentials(account).await;
        names = credentials.iter().map(|(name, _)| name.clone()).collect();
        columns.extend(
            credentials
                .into_iter()
                .map(|(_, credential)| column(rows.clone(), credential, others.clone(), tier == Tier::Free)),
        );
    }
    let columns = columns.into_iter().enumerate().map(|(nth, column)| async move { (nth, column.await) });
    let columns: BTreeMap<_, _> = at_once(columns).await.into_iter().collect();
    let table = table(&rows, &names, &columns.into_values().collect::<Vec<_>>());
    eprintln!("{table}");
    if std::env::var_os("KITFLEET_TEST_BLESS").is_some() {
        std::fs::write(REVIEWED, &table).expect("the file is written");
    }
    let reviewed = std::fs::read_to_string(REVIEWED).unwrap_or_default();
    assert!(table == reviewed, "{REVIEWED} is not what the service does. When the change is meant: ./ops/test --bless");
    app.stop().await;
}

/// Contract: mfa 12; errors 6. Whoever has a second factor is asked for a fresh proof, and what wants one is not done without.
#[tokio::test]
async fn what_needs_a_fresh_proof_says_so() {
    let app = App::simulated().with_second_factors().start().await;
    let ada = app.person(Tier::Enterprise).await;
    app.enroll(&ada).await;
    let gated = sampled(|asks| matches!(asks, Asks::ACredential(Needs { step_up: true, .. })));
    assert_eq!(gated.len(), 4, "disabling in two ways, regenerating, deleting the account");
    for reason in ["never_satisfied", "expired"] {
        for route in &gated {
            // Neither does it matter what the body says.
            for body in [None, Some(json!({"confirm": "delete-account"})), Some(json!({"confirm": "disable-mfa"}))] {
                let refused = ada.client.call(&Route { body, ..route.clone() }).await;
                let refused = refused.problem(403, "mfa-step-up-required");
                let members: Vec<_> = members(&refused.body).into_iter().collect();
                let expected =
                    ["detail", "instance", "reason", "request_id", "requires_mfa_step_up", "status", "title", "type"];
                assert_eq!(members, expected);
                assert_eq!(refused.body["title"], "MFA step-up required");
                assert_eq!(refused.body["requires_mfa_step_up"], true);
                assert_eq!(refused.body["reason"], reason, "{route:?}");
            }
        }
        let stale =
            "update web_sessions set mfa_satisfied_at = now() - interval '15 minutes 1 second' where account_id = $1";
        app.execute(stale, ada.account.as_uuid()).await;
    }
    assert_eq!(ada.client.get("/v1/account/mfa").await.expect(200).body["enrolled"], true);
    app.prove(&ada).await;
    for route in &gated {
        let answer = ada.client.call(route).await;
        assert!(matches!(answer.status.as_u16(), 200 | 400), "{route:?}: {} {}", answer.status, answer.body);
    }
    app.stop().await;
}

/// Contract: requests 8. Every authenticated write names the fields it does not know, and answers what it would have answered
/// without them; routes that need no credential name none.
#[tokio::test]
async fn every_authenticated_write_names_unknown_fields_and_no_other_does() {
    let app = App::simulated().with_second_factors().set("sessions.direct_driver", "real").start().await;
    let ada = app.person(Tier::Enterprise).await;
    for route in ROUTES.iter().filter(|route| route.method != Method::GET) {
        let plain = sample(&route.method, &route.path);
        let mut body = plain.body.clone().unwrap_or_else(|| json!({}));
        let ask = async |body: &Value| {
            let request = ada.client.request(plain.method.clone(), &plain.path).json(body);
            ada.client.send(request).await
        };
        let without = ask(&body).await;
        assert!(!without.headers.contains_key(UNKNOWN), "{plain:?} does not know its own fields");
        body["surprise"] = json!({"nested": 1});
        body["größe,x"] = true.into();
        let with = ask(&body).await;
        let named = with.headers.get(UNKNOWN).map(|value| value.to_str().expect("ASCII"));
        let expected = match asks(&route.method, &route.path) {
            Asks::ACredential(_) => Some("surprise,gr%C3%B6%C3%9Fe%2Cx"),
            Asks::Nothing | Asks::TheMetricsToken | Asks::AStaffCredential => None,
        };
        assert_eq!(named, expected, "{plain:?}");
        assert_eq!((with.status, told(&with)), (without.status, told(&without)), "{plain:?}");
    }
    app.stop().await;
}

const UNKNOWN: &str = "x-service-unknown-fields";

/// What an answer says, without what is another one each time.
fn told(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    for fresh in ["request_id", "otpauth_uri", "secret_base32", "expires_at"] {
        if let Some(member) = body.get_mut(fresh) {
            *member = Value::Null;
        }
    }
    body
}

/// Contract: lists 3. A cursor is bound to its account and its list; one that was tampered with, or belongs to another, is a
/// 400. The lists are those whose contract has a cursor.
#[tokio::test]
async fn a_cursor_is_good_for_its_list_and_its_account_only() {
    let crypto = CryptoProcessor::start().await;
    let app = App::simulated().with_second_factors().paid_in_crypto_at(&crypto.base_url).start().await;
    let contract = app.stranger().get("/openapi.json").await.expect(200).body;
    // Those of staff are nobody's account's (staff 15).
    let lists = ROUTES.iter().filter(|route| !route.path.starts_with("/v1/admin/")).filter(|route| {
        let operation = &contract["paths"][&route.path][route.method.as_str().to_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.into_iter().any(|parameter| parameter["$ref"] == "#/components/parameters/Cursor")
    });
    let lists: Vec<_> = lists.map(|list| &list.path).collect();
    assert!(lists.len() > 1, "{lists:?}");

    let callers = [app.client().await, app.client().await];
    let mut cursors = Vec::new();
    for client in &callers {
        let hook = json!({"url": "https://example.com/hook", "events": ["session.failed"]});
        let hook = client.post("/v1/webhooks", hook).await.expect(201).body;
        let hook = hook["id"].as_str().expect("an id");
        let profile = client.profile().await;
        client.profile().await;
        let agent = client.post("/v1/agent-sessions", json!({})).await.expect(201).body;
        let agent = agent["id"].as_str().expect("an id");
        client.post("/v1/agent-sessions", json!({})).await.expect(201);
        client
            .post(&format!("/v1/agent-sessions/{agent}/message"), json!({"message": "scroll down"}))
            .await
            .expect(200);
        for _ in 0..2 {
            client.session().await;
            client.post("/v1/recipes", json!({"agent_session_id": agent, "label": "Down"})).await.expect(201);
            client.post(&format!("/v1/profiles/{profile}/snapshots"), json!({})).await.expect(201);
            client.post("/v1/api-keys", json!({"name": "CI", "scopes": ["read"]})).await.expect(201);
            client.post("/v1/billing/crypto-checkout", json!({"product": "api_builder"})).await.expect(201);
            client.post(&format!("/v1/webhooks/{hook}/test"), json!({})).await.expect(202);
        }
        for list in &lists {
            let of = match list.split('/').nth(2) {
                Some("profiles") => &profile,
                Some("agent-sessions") => agent,
                _ => hook,
            };
            let list = list.replace("{id}", of);
            let page = client.get(&format!("{list}?limit=1")).await.expect(200);
            let cursor = page.body["next_cursor"].as_str();
            let cursor = cursor.unwrap_or_else(|| panic!("this test has to make two entries of {list}")).to_owned();
            cursors.push((list, client, cursor));
        }
    }
    let ask = async |list: &str, client: &Client, cursor: &str| client.get(&format!("{list}?cursor={cursor}")).await;
    for (list, client, cursor) in &cursors {
        for (other_list, other_client, other) in &cursors {
            let answer = ask(list, client, other).await;
            if list == other_list && std::ptr::eq(*client, *other_client) {
                answer.expect(200);
            } else {
                answer.invalid("cursor");
            }
        }
        for at in 0..cursor.len() {
            let mut tampered = cursor.clone().into_bytes();
            tampered[at] = if tampered[at] == b'A' { b'B' } else { b'A' };
            let tampered = String::from_utf8(tampered).expect("ASCII");
            ask(list, client, &tampered).await.invalid("cursor");
        }
        for malformed in [&cursor[..cursor.len() - 1], &format!("{cursor}A"), "", "x", "%00", "%FF", "null"] {
            ask(list, client, malformed).await.invalid("cursor");
        }
    }
    app.stop().await;
}

/// Contract: authorization 15. A key without `write:profiles` does not open a profile, on whichever route it names one, and is not told
/// which profiles there are.
#[tokio::test]
async fn create_with_a_profile_and_without_its_scope_is_403() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await;
    let key = async |scopes: &[&str]| app.key_of(account, KeyKind::Customer, scopes).await;
    let profile = key(&["write:profiles"]).await.profile().await;
    let foreign = app.client().await.profile().await;
    for (path, scope) in [("/v1/sessions", "write:sessions"), ("/v1/agent-sessions", "write:agents")] {
        let narrow = key(&[scope]).await;
        for id in [profile.as_str(), &foreign, &unknown_id("prof"), "none", ""] {
            // What else is wrong with the body does not matter.
            for body in [json!({"profile_id": id}), json!({"profile_id": id, "label": "x".repeat(121)})] {
                let refused = narrow.post(path, body).await.problem(403, "forbidden");
                assert_eq!(
                    refused.body["detail"], "the credential does not have the scope write:profiles",
                    "{path} {id}"
                );
            }
        }
        assert_eq!(app.count("select count(*) from sessions where live").await, 0, "{path}");
        let made = narrow.post(path, json!({"profile_id": null})).await.expect(201).body;
        narrow.delete(&format!("{path}/{}", made["id"].as_str().expect("an id"))).await.expect(204);
        for scopes in [&[scope, "write:profiles"][..], &["write"]] {
            let wide = key(scopes).await;
            let made = wide.post(path, json!({"profile_id": profile})).await.expect(201).body;
            wide.delete(&format!("{path}/{}", made["id"].as_str().expect("an id"))).await.expect(204);
        }
    }
    app.stop().await;
}

/// Contract: authorization 15; agents 3. A repeated create is judged as the first was, by what it names and by what was made.
#[tokio::test]
async fn replay_of_a_create_with_a_profile_requires_its_scope() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await;
    let key = async |scopes: &[&str]| app.key_of(account, KeyKind::Customer, scopes).await;
    let (wide, narrow) = (key(&["write:agents", "write:profiles"]).await, key(&["write:agents"]).await);
    let profile = wide.profile().await;
    let create = async |client: &Client, body: &Value| {
        let request = client.request(Method::POST, "/v1/agent-sessions").header("idempotency-key", "once");
        client.send(request.json(body)).await
    };
    let made = create(&wide, &json!({"profile_id": profile})).await.expect(201).body;
    for body in [json!({"profile_id": profile}), json!({"profile_id": null}), json!({}), json!({"mode": "none"})] {
        create(&narrow, &body).await.problem(403, "forbidden");
    }
    assert_eq!(create(&wide, &json!({})).await.expect(201).body, made);
    app.stop().await;
}
