//! Access to the live view of a session (contract: live 24 to 28).

mod driving;

use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use reqwest::Method;
use reqwest::header::{CONNECTION, HeaderMap, HeaderValue, ORIGIN, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use serde_json::{Value, json};

use crate::metrics::{scraped, value};
use crate::support::live::{Viewer, end_of, ticket};
use crate::support::namespaces::{OWN, furnish, in_network_namespace};
use crate::support::{Answer, App, Client, Role, at_once, eventually, members, unknown_id};

async fn issue(client: &Client, session: &str, body: Value) -> Answer {
    client.post(&format!("/v1/sessions/{session}/live-tickets"), body).await
}

fn opening(ticket: &str) -> HeaderMap {
    let text = |text: &str| HeaderValue::try_from(text).expect("a header");
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, text("keep-alive, Upgrade"));
    headers.insert(UPGRADE, text("websocket"));
    headers.insert("sec-websocket-version", text("13"));
    headers.insert("sec-websocket-key", text("dGhlIHNhbXBsZSBub25jZQ=="));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, text(&format!("kitfleet.live.v1, ticket.{ticket}")));
    headers
}

async fn watch(app: &App, session: &str, headers: HeaderMap) -> Answer {
    let stranger = app.stranger();
    stranger.send(stranger.request(Method::GET, &format!("/v1/sessions/{session}/live")).headers(headers)).await
}

/// Contract: live 24.
#[tokio::test]
async fn ticket_requires_access_to_the_session() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let answer = issue(&client, &session, json!({"role": "viewer"})).await.expect(201);
    let fields: Vec<_> = answer.body.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(fields, ["ticket", "url", "page_url", "expires_at"]);
    let ticket = answer.body["ticket"].as_str().expect("a ticket");
    assert_eq!(answer.body["page_url"], format!("{}/live/{session}#ticket={ticket}", app.base_url));
    let url = format!("{}/v1/sessions/{session}/live", app.base_url.replace("http://", "ws://"));
    assert_eq!(answer.body["url"], url);
    assert_eq!(answer.headers["cache-control"], "no-store");
    issue(&client, &session, json!({"role": "controller", "client_id": "ada-laptop"})).await.expect(201);

    issue(&client, &session, json!({"role": null})).await.expect(201);
    for role in [json!("owner"), json!(1)] {
        issue(&client, &session, json!({"role": role})).await.invalid("role");
    }
    issue(&client, &session, json!({})).await.expect(201);
    for client_id in [json!(""), json!("x".repeat(129)), json!("a\nb"), json!(1)] {
        issue(&client, &session, json!({"role": "controller", "client_id": client_id})).await.invalid("client_id");
    }
    let reader = app.client_of(account, &["read:sessions"]).await;
    issue(&reader, &session, json!({"role": "viewer"})).await.expect(201);
    issue(&reader, &session, json!({"role": "controller"})).await.problem(403, "forbidden");
    let driver = app.client_of(account, &["write:sessions"]).await;
    issue(&driver, &session, json!({"role": "controller"})).await.expect(201);
    for viewer in [json!({"role": "viewer"}), json!({"role": null}), json!({})] {
        let refused = issue(&driver, &session, viewer).await.problem(403, "forbidden");
        assert_eq!(refused.body["detail"], "the credential does not have the scope read:sessions");
    }
    app.client_of(account, &["read:usage"])
        .await
        .post(&format!("/v1/sessions/{session}/live-tickets"), json!({"role": "viewer"}))
        .await
        .problem(403, "forbidden");
    let other = app.client().await;
    issue(&other, &session, json!({"role": "viewer"})).await.problem(404, "not-found");
    issue(&client, &unknown_id("ses"), json!({"role": "viewer"})).await.problem(404, "not-found");

    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    issue(&client, &session, json!({"role": "viewer"})).await.problem(410, "session-destroyed");
    let stored = "select count(*) from live_tickets where octet_length(ticket_hash) <> 32";
    assert_eq!(app.count(stored).await, 0);
    app.stop().await;
}

/// Contract: live 25, 26.
#[tokio::test]
async fn view_without_valid_ticket_is_rejected() {
    let app = App::simulated().set("live.ticket_ttl", "2s").set("live.origins", "https://desk.example.com");
    let app = scraped(app).start().await;
    let client = app.client().await;
    let (session, another) = (client.session().await, client.session().await);
    let ticket = async |session: &str| {
        let answer = issue(&client, session, json!({"role": "viewer"})).await.expect(201);
        answer.body["ticket"].as_str().expect("a ticket").to_owned()
    };
    client.get(&format!("/v1/sessions/{session}/live")).await.problem(400, "bad-request");
    for missing in ["connection", "upgrade", "sec-websocket-version", "sec-websocket-key", "sec-websocket-protocol"] {
        let mut headers = opening(&ticket(&session).await);
        headers.remove(missing);
        watch(&app, &session, headers).await.problem(400, "bad-request");
    }
    let mut headers = opening("");
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("kitfleet.live.v1"));
    watch(&app, &session, headers).await.problem(401, "unauthorized");
    watch(&app, &session, opening("no-such-ticket")).await.problem(401, "unauthorized");
    watch(&app, &another, opening(&ticket(&session).await)).await.problem(401, "unauthorized");
    watch(&app, "ses_x", opening(&ticket(&session).await)).await.problem(404, "not-found");

    let mut foreign = opening(&ticket(&session).await);
    foreign.insert(ORIGIN, HeaderValue::from_static("https://evil.example"));
    watch(&app, &session, foreign).await.problem(403, "forbidden");
    for origin in [app.base_url.clone(), "https://desk.example.com".to_owned()] {
        let mut own = opening(&ticket(&session).await);
        own.insert(ORIGIN, HeaderValue::try_from(origin).expect("an origin"));
        assert_eq!(watch(&app, &session, own).await.status, 101);
    }
    // Contract: operators 5. The metrics count an opened view with its status class.
    let counted = "service_http_request_total{method=\"GET\",route=\"/v1/sessions/{id}/live\",status_class=\"1xx\"}";
    assert!((value(&app, counted).await - 2.0).abs() < 0.5);
    let (late, of_another) = (ticket(&session).await, ticket(&another).await);
    client.delete(&format!("/v1/sessions/{another}")).await.expect(204);
    watch(&app, &another, opening(&of_another)).await.problem(410, "session-destroyed");
    eventually(Duration::from_secs(10), "the ticket has expired", async || {
        (watch(&app, &session, opening(&late)).await.status == 401).then_some(())
    })
    .await;
    app.stop().await;
}

/// Contract: live 25.
#[tokio::test]
async fn one_of_64_uses_of_a_ticket_opens_the_view() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    let ticket = ticket(&client, &session, "viewer", None).await;
    let path = format!("/v1/sessions/{session}/live");
    let asked = (0..64).map(|_| {
        let (stranger, headers, path) = (app.stranger(), opening(&ticket), path.clone());
        async move { stranger.send(stranger.request(Method::GET, &path).headers(headers)).await.status }
    });
    let mut answers = at_once(asked).await;
    answers.sort_unstable();
    assert_eq!(answers[0], 101);
    assert!(answers[1..].iter().all(|status| *status == 401), "{answers:?}");
    app.stop().await;
}

/// This must take less than 5 s. Returns the close code.
async fn until_disconnected(viewer: &mut Viewer) -> Option<u16> {
    let since = Instant::now();
    let code = viewer.until_closed().await;
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    code
}

/// Contract: live 6, 20. This takes at most 5 s after the key is revoked, the user signs out, the membership is removed, the
/// account is suspended, or the session ends.
#[tokio::test]
async fn viewer_is_disconnected_when_its_credential_ends() {
    let app = App::simulated().start().await;
    let (owner, client) = app.customer(Tier::Enterprise).await;
    let (member, _) = app.customer(Tier::Enterprise).await;
    app.join_team(owner, member, "admin").await;
    let session = client.session().await;
    let minted =
        client.post("/v1/api-keys", json!({"name": "live", "scopes": ["read:sessions"]})).await.expect(201).body;
    let keyed = Client::new(&app.base_url, minted["key"].as_str());
    let members = app.client_of(member, &["account_owner"]).await;
    let as_member = async |what: &str, body: Value| {
        let request = members.request(Method::POST, &format!("/v1/sessions/{session}/{what}"));
        members.send(request.header("x-service-account", owner.to_string()).json(&body)).await.expect(201)
    };
    let by_team = as_member("live-tickets", json!({"role": "viewer"})).await.body["ticket"].clone();
    let link = as_member("live-links", json!({"expires_in": 600})).await;
    let by_link = follow(&app, secret_of(&link)).await.expect(201).body["ticket"].clone();
    let person = app.device_of(owner).await;
    let [of_key, of_person, of_staying] = [&keyed, &person, &client].map(|who| ticket(who, &session, "viewer", None));
    let mut viewers = Vec::new();
    for ticket in [
        of_key.await,
        of_person.await,
        by_team.as_str().expect("a ticket").to_owned(),
        by_link.as_str().expect("a ticket").to_owned(),
        of_staying.await,
    ] {
        let mut viewer = Viewer::through_the_api(&app, &session, &ticket).await;
        assert_eq!(
            viewer.wait_for_message("hello", 0).await,
            json!({"type": "hello", "session_id": session, "role": "viewer"})
        );
        viewers.push(viewer);
    }
    let [mut by_key, mut signed_in, mut by_team, mut by_link, mut staying]: [Viewer; 5] =
        viewers.try_into().unwrap_or_else(|_| unreachable!("there are five viewers"));
    let late = ticket(&keyed, &session, "viewer", None).await;
    client.delete(&format!("/v1/api-keys/{}", minted["id"].as_str().expect("an id"))).await.expect(204);
    assert_eq!(until_disconnected(&mut by_key).await, Some(4001));
    watch(&app, &session, opening(&late)).await.problem(401, "unauthorized");

    app.stranger().post("/v1/auth/logout", json!({"token": person.key})).await.expect(200);
    assert_eq!(until_disconnected(&mut signed_in).await, Some(4001));

    let members = client.get("/v1/team/members").await.expect(200).body;
    let membership = members["data"][0]["id"].as_str().expect("an id").to_owned();
    client.delete(&format!("/v1/team/members/{membership}")).await.expect(204);
    let (one, other) = tokio::join!(until_disconnected(&mut by_team), until_disconnected(&mut by_link));
    assert_eq!((one, other), (Some(4001), Some(4001)));
    // The link does not work again after the member rejoins, and it no longer counts towards the limit of 16.
    for joins in [true, false] {
        follow(&app, secret_of(&link)).await.problem(404, "not-found");
        let listed = client.get(&format!("/v1/sessions/{session}/live-links")).await.expect(200).body;
        assert_eq!(listed["data"], json!([]));
        if joins {
            app.join_team(owner, member, "admin").await;
        }
    }

    let another = client.session().await;
    let mut suspended = Viewer::through_the_api(&app, &another, &ticket(&client, &another, "viewer", None).await).await;
    suspended.wait_for_message("hello", 0).await;
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    assert_eq!(until_disconnected(&mut staying).await, Some(4000));
    // Suspension also ends the account's sessions, so that either close code is correct.
    app.run(&["account", "suspend", &owner.to_string()]).await.code(0);
    assert!(matches!(until_disconnected(&mut suspended).await, Some(4000 | 4001)));
    app.stop().await;
}

/// Contract: live 6, 31; oauth 4. A link that an OAuth client made is valid as long as the client exists.
#[tokio::test]
async fn view_ends_with_its_oauth_token_and_link_with_its_client() {
    let app = App::simulated().set("auth.oauth_token_ttl", "4s").start().await;
    let owner = app.person(Tier::Enterprise).await;
    let program = crate::oauth::create_client(&owner.client, &["read:sessions", "write:sessions"]).await;
    let by_token = crate::oauth::token(&app, &program).await;
    let session = owner.client.session().await;
    let link = by_token.post(&format!("/v1/sessions/{session}/live-links"), json!({"expires_in": 600})).await;
    let link = link.expect(201);
    let mut viewer = Viewer::through_the_api(&app, &session, &ticket(&by_token, &session, "viewer", None).await).await;
    let mut other =
        Viewer::through_the_api(&app, &session, &ticket(&owner.client, &session, "viewer", None).await).await;
    viewer.wait_for_message("hello", 0).await;
    let since = Instant::now();
    assert_eq!(viewer.until_closed().await, Some(4001));
    assert!(since.elapsed() < Duration::from_secs(4 + 5), "{:?}", since.elapsed());
    by_token.get(&format!("/v1/sessions/{session}")).await.problem(401, "unauthorized");
    other.read_for(Duration::from_millis(100)).await;
    assert_eq!(other.closed, None);

    let by_link = follow(&app, secret_of(&link)).await.expect(201).body;
    let by_link = by_link["ticket"].as_str().expect("a ticket");
    let mut by_link = Viewer::through_the_api(&app, &session, by_link).await;
    by_link.wait_for_message("hello", 0).await;
    owner.client.delete(&format!("/v1/oauth/clients/{}", program.id)).await.expect(204);
    assert_eq!(until_disconnected(&mut by_link).await, Some(4001));
    follow(&app, secret_of(&link)).await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: live 6; authorization 4, 5. Device credentials and signed-in users keep their access.
#[tokio::test]
async fn downgrade_disconnects_viewers_with_keys_and_tokens() {
    let app = App::simulated().start().await;
    let owner = app.person(Tier::Enterprise).await;
    let device = app.client_of(owner.account, &["account_owner"]).await;
    app.execute("update api_keys set kind = 'device' where account_id = $1", owner.account.as_uuid()).await;
    let key = app.client_of(owner.account, &["account_owner"]).await;
    let program = crate::oauth::create_client(&owner.client, &["read:sessions"]).await;
    let token = crate::oauth::token(&app, &program).await;
    let session = key.session().await;
    let link = key.post(&format!("/v1/sessions/{session}/live-links"), json!({"expires_in": 600})).await.expect(201);
    let mut viewers = Vec::new();
    for client in [&key, &token, &device, &owner.client] {
        let ticket = ticket(client, &session, "viewer", None).await;
        let mut viewer = Viewer::through_the_api(&app, &session, &ticket).await;
        viewer.wait_for_message("hello", 0).await;
        viewers.push(viewer);
    }
    let [mut key, mut token, mut device, mut person]: [Viewer; 4] =
        viewers.try_into().unwrap_or_else(|_| unreachable!("there are four viewers"));
    app.execute("update accounts set tier = 'free' where id = $1", owner.account.as_uuid()).await;
    let (by_key, by_token) = tokio::join!(until_disconnected(&mut key), until_disconnected(&mut token));
    assert_eq!((by_key, by_token), (Some(4001), Some(4001)));
    follow(&app, secret_of(&link)).await.problem(404, "not-found");
    // Wait for more than one check of the credentials.
    for staying in [&mut device, &mut person] {
        staying.read_for(Duration::from_millis(2_500)).await;
        assert_eq!(staying.closed, None);
    }
    app.execute("update accounts set tier = 'enterprise' where id = $1", owner.account.as_uuid()).await;
    follow(&app, secret_of(&link)).await.expect(201);
    app.stop().await;
}

/// Contract: live 27.
#[tokio::test]
async fn concurrent_viewers_respect_the_limit() {
    let app = App::simulated()
        .set("server.max_connections", "64")
        .set("server.max_connections_per_address", "64")
        .start()
        .await;
    let client = app.client().await;
    let session = client.session().await;
    let mut tickets = Vec::new();
    for _ in 0..24 {
        tickets.push(ticket(&client, &session, "viewer", None).await);
    }
    let asked = tickets.into_iter().map(|ticket| {
        let (stranger, headers, session) = (app.stranger(), opening(&ticket), session.clone());
        async move {
            let request = stranger.request(Method::GET, &format!("/v1/sessions/{session}/live")).headers(headers);
            // The response keeps the view open until it is dropped.
            request.send().await.expect("an answer")
        }
    });
    let answers = at_once(asked).await;
    let with = |status: u16| answers.iter().filter(|answer| answer.status() == status).count();
    assert_eq!((with(101), with(409)), (16, 8));
    drop(answers);
    let again = async || {
        let ticket = ticket(&client, &session, "viewer", None).await;
        (watch(&app, &session, opening(&ticket)).await.status == 101).then_some(())
    };
    eventually(Duration::from_secs(10), "a slot for a viewer is free", again).await;
    app.stop().await;
}

/// Contract: live 21, 22. The API trusts only the certificate with the stored fingerprint.
#[tokio::test]
async fn worker_on_another_machine_requires_tls() {
    in_network_namespace("live::worker_inside_network_namespace").await;
}

#[tokio::test]
#[ignore = "runs in a network namespace that another test starts"]
async fn worker_inside_network_namespace() {
    let _files = furnish(&[]);
    let listen = format!("{}:7401", OWN[0]);
    let app = App::simulated().set("worker.live_listen", &listen).roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let session = client.session().await;
    let end = end_of(&app, &session).await;
    assert_eq!((end.address, end.fingerprint.map(|print| print.len())), (listen, Some(32)));
    let mut viewer = Viewer::through_the_api(&app, &session, &ticket(&client, &session, "viewer", None).await).await;
    viewer.wait_for_message("hello", 0).await;
    viewer.wait_for_message("page", 0).await;
    for other in ["null", "sha256('another')"] {
        app.execute_all(&format!("update workers set live_fingerprint = {other}")).await;
        let ticket = ticket(&client, &session, "viewer", None).await;
        watch(&app, &session, opening(&ticket)).await.problem(503, "driver-not-integrated");
    }
    viewer.read_for(Duration::from_millis(100)).await;
    assert_eq!(viewer.closed, None);
    app.stop().await;
}

/// Contract: live 28. The views do not delay the shutdown.
#[tokio::test]
async fn view_ends_with_its_api_process() {
    let mut app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let client = app.client().await;
    let session = client.session().await;
    let mut viewer = Viewer::through_the_api(&app, &session, &ticket(&client, &session, "viewer", None).await).await;
    viewer.wait_for_message("hello", 0).await;
    app.signal(0, nix::sys::signal::Signal::SIGTERM).await;
    assert_eq!(viewer.until_closed().await, None);
    eventually(Duration::from_secs(10), "the process has ended", async || app.has_ended(0).then_some(())).await;
    app.stop().await;
}

/// The part of a link's URL after the `#`.
fn secret_of(link: &Answer) -> &str {
    link.body["url"].as_str().and_then(|url| url.split_once('#')).expect("an address with a secret").1
}

async fn follow(app: &App, secret: &str) -> Answer {
    app.stranger().post("/v1/live-links/follow", json!({"link": secret})).await
}

/// Contract: live 29 to 32. A link also ends when its creator loses access to the session.
#[tokio::test]
async fn link_works_for_any_visitor_until_deleted_or_expired() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let path = format!("/v1/sessions/{session}/live-links");
    let made = client.post(&path, json!({"expires_in": 3_600})).await.expect(201);
    assert_eq!(members(&made.body), ["id", "session_id", "created_at", "expires_at", "url"].into());
    assert_eq!(made.headers["cache-control"], "no-store");
    let (id, secret) = (made.body["id"].as_str().expect("an id"), secret_of(&made));
    assert_eq!(made.body["url"], format!("{}/live/{session}#{secret}", app.base_url));
    let listed = client.get(&path).await.expect(200).body;
    let shown = json!({"id": id, "session_id": session, "created_at": made.body["created_at"], "expires_at": made.body["expires_at"]});
    assert_eq!(listed, json!({"data": [shown], "has_more": false, "next_cursor": null}));
    let kept: Vec<String> =
        sqlx::query_scalar("select l::text from live_links l").fetch_all(&app.database.pool).await.expect("links");
    assert!(kept.len() == 1 && !kept[0].contains(secret), "{kept:?}");

    for _ in 0..2 {
        let ticket = follow(&app, secret).await.expect(201).body;
        assert_eq!(ticket["url"], format!("{}/v1/sessions/{session}/live", app.base_url.replace("http://", "ws://")));
        let watched = watch(&app, &session, opening(ticket["ticket"].as_str().expect("a ticket"))).await;
        assert_eq!(watched.status, 101);
    }
    assert_eq!(app.count("select count(*) from live_tickets where role <> 'viewer'").await, 0);
    for wrong in ["x", &"x".repeat(128), &session] {
        follow(&app, wrong).await.problem(404, "not-found");
    }

    let usual = client.post(&path, json!({"expires_in": null})).await.expect(201).body;
    client.delete(&format!("/v1/live-links/{}", usual["id"].as_str().expect("an id"))).await.expect(204);
    for expires_in in [json!(0), json!(-1), json!(86_401), json!("1"), json!(1.5)] {
        client.post(&path, json!({"expires_in": expires_in})).await.invalid("expires_in");
    }
    let (_, other) = app.customer(Tier::Enterprise).await;
    other.post(&path, json!({"expires_in": 60})).await.problem(404, "not-found");
    other.get(&path).await.problem(404, "not-found");
    other.delete(&format!("/v1/live-links/{id}")).await.problem(404, "not-found");
    app.client_of(account, &["read:sessions"])
        .await
        .post(&path, json!({"expires_in": 60}))
        .await
        .problem(403, "forbidden");

    client.delete(&format!("/v1/live-links/{id}")).await.expect(204);
    client.delete(&format!("/v1/live-links/{id}")).await.problem(404, "not-found");
    client.delete(&format!("/v1/live-links/{}", unknown_id("lnk"))).await.problem(404, "not-found");
    follow(&app, secret).await.problem(404, "not-found");
    assert_eq!(client.get(&path).await.expect(200).body["data"], json!([]));

    let links = at_once((0..20).map(|_| {
        let (client, path) = (client.clone(), path.clone());
        async move { client.post(&path, json!({"expires_in": 60})).await }
    }))
    .await;
    let (there, refused): (Vec<_>, Vec<_>) = links.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((there.len(), refused.len()), (16, 4));
    for answer in refused {
        answer.problem(409, "conflict");
    }
    let expire = sqlx::query("update live_links set expires_at = now() - interval '1 second'");
    expire.execute(&app.database.pool).await.expect("a statement");
    follow(&app, secret_of(&there[0])).await.problem(404, "not-found");

    // The link ends with the session and with the credential of its creator.
    let key = app.client_of(account, &["account_owner"]).await;
    let made = key.post(&path, json!({"expires_in": 60})).await.expect(201);
    let revoke = "update api_keys set revoked_at = now() where id = (select api_key_id from live_links order by id desc limit 1)";
    sqlx::query(revoke).execute(&app.database.pool).await.expect("a statement");
    follow(&app, secret_of(&made)).await.problem(404, "not-found");
    let made = client.post(&path, json!({"expires_in": 60})).await.expect(201);
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    follow(&app, secret_of(&made)).await.problem(404, "not-found");
    client.post(&path, json!({"expires_in": 60})).await.problem(410, "session-destroyed");
    assert_eq!(client.get(&path).await.expect(200).body["data"], json!([]));
    app.stop().await;
}

/// Contract: live 33, 34. The page is the same for all visitors and sends no referrer.
#[tokio::test]
async fn live_page_allows_frames_only_of_configured_origins() {
    for (origins, ancestors) in
        [("", "frame-ancestors 'none'"), ("https://desk.example.com", "frame-ancestors https://desk.example.com")]
    {
        let app = App::simulated().set("live.origins", origins).start().await;
        let page = app
            .stranger()
            .request(Method::GET, &format!("/live/{}", unknown_id("ses")))
            .send()
            .await
            .expect("an answer");
        assert_eq!(page.status(), 200);
        let policy = page.headers()["content-security-policy"].to_str().expect("text").to_owned();
        assert!(policy.split("; ").any(|rule| rule == ancestors) && !policy.contains("unsafe"), "{policy}");
        assert_eq!(
            (&page.headers()["referrer-policy"], &page.headers()["cache-control"]),
            (&HeaderValue::from_static("no-referrer"), &HeaderValue::from_static("no-store"))
        );
        // This header would forbid the frames that `live.origins` allows.
        assert_eq!(page.headers().contains_key("x-frame-options"), origins.is_empty());
        app.stop().await;
    }
}
