//! The authorization matrix (contract: authorization): each route with each kind of credential, on the free tier and a paid
//! one.
//!
//! The expected verdicts come from the tests' own reading of the contract, [`requirements`] and [`expected`], not from the
//! service's table.

pub mod requirements;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use kitfleet_api::permissions::{self, ROUTES};
use kitfleet_domain::api_keys::{self, KeyKind, NewKey, Scopes};
use kitfleet_domain::audit::{Actor, Origin};
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use self::requirements::{Needs, Requirement, TeamRole, Usable, asks, named_by, needs, sampled};
use crate::oauth;
use crate::support::crypto_processor::CryptoProcessor;
use crate::support::routes::{Route, sample};
use crate::support::{Answer, App, Client, at_once, eventually, members, unknown_id};

const REVIEWED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/authorization.txt");
const TEAM_ROLES: [TeamRole; 4] = [TeamRole::Own, TeamRole::Stranger, TeamRole::Member, TeamRole::Admin];

struct Row {
    route: &'static permissions::Route,
    says: RequestBody,
}

#[derive(Debug, Clone, Copy)]
enum RequestBody {
    Sample,
    /// A body that names a resource to use.
    Naming(Usable),
    /// A body that requests a controller's ticket (contract: live 24).
    Controller,
}

impl Row {
    /// The fields come from the bodies in the contract.
    async fn all(app: &App) -> Vec<Self> {
        let contract = app.stranger().get("/openapi.json").await.expect(200).body;
        let fields_of = |route: &permissions::Route| {
            let operation = &contract["paths"][&route.path][route.method.as_str().to_lowercase()];
            let mut contents = operation["requestBody"]["content"].as_object().into_iter().flatten();
            let schema = contents.next().map_or(&Value::Null, |(_, content)| &content["schema"]);
            let schema = schema["$ref"].as_str().map_or(schema, |named| {
                contract.pointer(named.trim_start_matches('#')).unwrap_or_else(|| panic!("the contract has no {named}"))
            });
            let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
            names.filter(|name| name.ends_with("_id") || name.ends_with("_ids")).collect::<Vec<_>>()
        };
        let mut rows = Vec::new();
        for route in ROUTES.iter() {
            rows.push(Self { route, says: RequestBody::Sample });
            if route.path.ends_with("/live-tickets") {
                rows.push(Self { route, says: RequestBody::Controller });
            }
            let usable = fields_of(route).into_iter().filter_map(|field| named_by(&field));
            rows.extend(usable.map(|named| Self { route, says: RequestBody::Naming(named) }));
        }
        rows
    }

    /// A harmless request for this row.
    fn request(&self) -> Route {
        let sample = sample(&self.route.method, &self.route.path);
        match self.says {
            RequestBody::Sample => sample,
            RequestBody::Naming(Usable { field, prefix, .. }) => {
                Route { body: Some(json!({ field: unknown_id(prefix) })), ..sample }
            }
            RequestBody::Controller => Route { body: Some(json!({"role": "controller"})), ..sample },
        }
    }

    fn asks(&self) -> Requirement {
        match self.says {
            RequestBody::Sample | RequestBody::Naming(_) => asks(&self.route.method, &self.route.path),
            RequestBody::Controller => {
                Requirement::CustomerCredential(needs("write:sessions").for_team(TeamRole::Admin).or_free_device())
            }
        }
    }

    fn name(&self) -> String {
        let says = match self.says {
            RequestBody::Sample => String::new(),
            RequestBody::Naming(Usable { field, .. }) => format!(" with a {field}"),
            RequestBody::Controller => " as a controller".to_owned(),
        };
        format!("{:7}{}{says}", self.route.method.as_str(), self.route.path)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Anonymous,
    Key,
    Device,
    OauthToken,
    WebSession,
    TeamsKey(TeamRole),
}

#[derive(Clone)]
struct Credential {
    kind: Kind,
    scopes: &'static [&'static str],
    client: Client,
}

impl Credential {
    fn may_send(&self, says: RequestBody, team_role: TeamRole) -> bool {
        let RequestBody::Naming(named) = says else { return true };
        self.satisfies(named.scope) && (team_role == TeamRole::Own || team_role >= named.role)
    }

    /// Contract: authorization 6. A broad scope satisfies its granular counterparts, `account_owner` satisfies all scopes, and
    /// `admin` is its alias.
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
    Unknown,
    Refused,
    Absent,
}

fn expected(asks: &Requirement, caller: &Credential, free_tier: bool, team_role: TeamRole) -> Verdict {
    let needs = match asks {
        Requirement::NoCredential => return Verdict::LetIn,
        Requirement::MetricsToken => return Verdict::Unknown,
        Requirement::StaffCredential if caller.kind == Kind::Anonymous => return Verdict::Unknown,
        Requirement::StaffCredential => return Verdict::Absent,
        Requirement::CustomerCredential(needs) => needs,
    };
    let right_kind = match caller.kind {
        Kind::Anonymous => return Verdict::Unknown,
        Kind::WebSession => true,
        // The key has its creator's rights with the account header, on this account only.
        Kind::TeamsKey(maker) => {
            let opens = needs.team.is_some_and(|(scope, least)| maker >= least && caller.satisfies(scope));
            let own = opens && team_role == TeamRole::Own || needs.members_key && caller.satisfies(needs.scope);
            let let_in = own && !free_tier;
            return if let_in { Verdict::LetIn } else { Verdict::Refused };
        }
        Kind::Device => !needs.person && (needs.free_device || !free_tier),
        Kind::Key | Kind::OauthToken => !needs.person && !free_tier,
    };
    let right_account = match needs.team {
        Some((scope, least)) if team_role != TeamRole::Own => team_role >= least && caller.satisfies(scope),
        _ => caller.satisfies(needs.scope),
    };
    if right_kind && right_account { Verdict::LetIn } else { Verdict::Refused }
}

fn observed(asks: &Requirement, answer: &Answer) -> Verdict {
    match answer.status.as_u16() {
        401 => Verdict::Unknown,
        403 => Verdict::Refused,
        404 if matches!(asks, Requirement::StaffCredential) => Verdict::Absent,
        status => {
            assert!(status < 500, "{status}: {}", answer.body);
            Verdict::LetIn
        }
    }
}

/// Verdicts for the caller's own account, a stranger's account, and accounts whose team the caller is on as member and as
/// admin.
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

struct Caller {
    account: AccountId,
    others: BTreeMap<TeamRole, AccountId>,
}

impl App {
    async fn caller(&self, tier: Tier) -> Caller {
        let account = self.account(Tier::Enterprise).await;
        let mut others = BTreeMap::new();
        for (team_role, role) in
            [(TeamRole::Stranger, None), (TeamRole::Member, Some("member")), (TeamRole::Admin, Some("admin"))]
        {
            let owner = self.account(Tier::Enterprise).await;
            others.insert(team_role, owner);
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

    async fn credentials(&self, account: AccountId) -> Vec<(String, Credential)> {
        let mut all =
            vec![("nobody".to_owned(), Credential { kind: Kind::Anonymous, scopes: &[], client: self.stranger() })];
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
            let token = oauth::token(self, &oauth::create_client(&person, scopes).await).await;
            add(Kind::OauthToken, "OAuth token", scopes, token);
        }
        for (team_role, role) in [(TeamRole::Member, "member"), (TeamRole::Admin, "admin")] {
            for scopes in [&["read"][..], &["account_owner"]] {
                let client = self.key_of_member(account, role, scopes).await;
                add(Kind::TeamsKey(team_role), &format!("key that a team's {role} made"), scopes, client);
            }
        }
        add(Kind::WebSession, "web session", &["account_owner"], self.device_of(account).await);
        all
    }

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

/// Scopes of the keys: none, each alone (contract: authorization 6), and pairs.
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

/// Asserts each verdict, and returns them as a column of letters.
async fn column(
    rows: Arc<Vec<Row>>,
    caller: Credential,
    others: BTreeMap<TeamRole, AccountId>,
    free_tier: bool,
) -> String {
    let mut letters = String::new();
    for row in rows.iter() {
        let (asks, request) = (row.asks(), row.request());
        let mut verdicts = Vec::new();
        for team_role in TEAM_ROLES {
            let mut builder = caller.client.request_of(&request);
            if let Some(owner) = others.get(&team_role) {
                builder = builder.header("x-service-account", owner.to_string());
            }
            let answer = caller.client.send(builder).await;
            let observed = observed(&asks, &answer);
            let expected = match expected(&asks, &caller, free_tier, team_role) {
                Verdict::LetIn if !caller.may_send(row.says, team_role) => Verdict::Refused,
                verdict => verdict,
            };
            let Credential { kind, scopes, .. } = &caller;
            assert_eq!(
                observed,
                expected,
                "{}: {kind:?} {scopes:?}, {team_role:?}, free tier {free_tier}: {} {}",
                row.name(),
                answer.status,
                answer.body
            );
            verdicts.push(observed);
        }
        letters.push(letter(verdicts.try_into().expect("a verdict for each team_role")));
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
async fn every_cell_of_the_matrix_follows_the_contract() {
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
    assert!(
        table == reviewed,
        "{REVIEWED} differs from the service. If the change is intended, run ./ops/test --bless"
    );
    app.stop().await;
}

/// Contract: mfa 12; errors 6.
#[tokio::test]
async fn gated_route_without_recent_proof_is_403() {
    let app = App::simulated().with_second_factors().start().await;
    let ada = app.person(Tier::Enterprise).await;
    app.enroll(&ada).await;
    let gated = sampled(|asks| matches!(asks, Requirement::CustomerCredential(Needs { step_up: true, .. })));
    // Two routes to disable, one each to regenerate, to delete the account, and to change the password and the address.
    assert_eq!(gated.len(), 6);
    for reason in ["never_satisfied", "expired"] {
        for route in &gated {
            // The body does not matter.
            for body in [None, Some(json!({"confirm": "delete-account"})), Some(json!({"confirm": "disable-mfa"}))] {
                let refused = ada.client.call(&Route { body, ..route.clone() }).await;
                let refused = refused.problem(403, "mfa-step-up-required");
                let members: Vec<_> = members(&refused.body).into_iter().collect();
                let expected = [
                    "code",
                    "detail",
                    "instance",
                    "reason",
                    "request_id",
                    "requires_mfa_step_up",
                    "status",
                    "title",
                    "type",
                ];
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

/// Contract: requests 8. Routes that need no credential name none.
#[tokio::test]
async fn only_authenticated_writes_name_unknown_fields() {
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
        assert!(!without.headers.contains_key(UNKNOWN), "{plain:?} reports a declared field as unknown");
        body["surprise"] = json!({"nested": 1});
        body["größe,x"] = true.into();
        let with = ask(&body).await;
        let named = with.headers.get(UNKNOWN).map(|value| value.to_str().expect("ASCII"));
        let expected = match asks(&route.method, &route.path) {
            Requirement::CustomerCredential(_) => Some("surprise,gr%C3%B6%C3%9Fe%2Cx"),
            Requirement::NoCredential | Requirement::MetricsToken | Requirement::StaffCredential => None,
        };
        assert_eq!(named, expected, "{plain:?}");
        assert_eq!((with.status, comparable_body(&with)), (without.status, comparable_body(&without)), "{plain:?}");
    }
    app.stop().await;
}

const UNKNOWN: &str = "x-service-unknown-fields";

/// The body of an answer without the members that differ each time.
fn comparable_body(answer: &Answer) -> Value {
    let mut body = answer.body.clone();
    for fresh in ["request_id", "otpauth_uri", "secret_base32", "expires_at"] {
        if let Some(member) = body.get_mut(fresh) {
            *member = Value::Null;
        }
    }
    body
}

/// Contract: lists 3. The lists are the ones with a cursor in the contract.
#[tokio::test]
async fn cursor_of_another_list_or_account_is_400() {
    let crypto = CryptoProcessor::start().await;
    let app = App::simulated().with_second_factors().paid_in_crypto_at(&crypto.base_url).start().await;
    let contract = app.stranger().get("/openapi.json").await.expect(200).body;
    // Lists for staff belong to no account (staff 15).
    let lists = ROUTES.iter().filter(|route| !route.path.starts_with("/v1/admin/")).filter(|route| {
        let operation = &contract["paths"][&route.path][route.method.as_str().to_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.into_iter().any(|parameter| parameter["$ref"] == "#/components/parameters/Cursor")
    });
    // A simulated browser sends no requests. Their list has the code of the list of console lines.
    let lists = lists.map(|list| &list.path).filter(|path| !path.ends_with("/requests"));
    // Steps that wait for an approval need a page that submits.
    let lists: Vec<_> = lists.filter(|path| *path != "/v1/account/approvals").collect();
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
        let session = client.session_with(json!({"record": "steps"})).await;
        for _ in 0..2 {
            client.navigate(&session, "https://console.simulated.example/error?text=lost").await.expect(200);
            let links = format!("/v1/sessions/{session}/trace-links");
            eventually(Duration::from_secs(10), "a link to the recording", async || {
                (client.post(&links, json!({})).await.status == 201).then_some(())
            })
            .await;
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
                Some("sessions") => &session,
                _ => hook,
            };
            let list = list.replace("{id}", of);
            // The events of a recording are stored up to two seconds later.
            let cursor = eventually(Duration::from_secs(10), &format!("two entries of {list}"), async || {
                let page = client.get(&format!("{list}?limit=1")).await.expect(200);
                page.body["next_cursor"].as_str().map(str::to_owned)
            })
            .await;
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

/// Contract: authorization 15. The key cannot learn which profiles exist.
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
            // The scope is checked before the rest of the body.
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

/// Contract: authorization 15; agents 3. The scopes for the resources in the first body are required too.
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
