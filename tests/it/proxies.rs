//! Saved proxies: create, replace, check and use in sessions (contract: proxies).

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::support::app::{Builder, Role};
use crate::support::people::ENCRYPTION_KEY;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, at_once, eventually, members, stable, unknown_id};

const PROXIES: &str = "/v1/account/me/proxies";
const PASSWORD: &str = "sesame-open-never-seen";

fn with_encryption_key() -> Builder {
    App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY)
}

fn socks5() -> Value {
    json!({"label": "Office", "scheme": "socks5", "host": "proxy.example.com", "port": 1080, "username": "kit", "password": PASSWORD})
}

/// With a unique private key, which is returned too.
fn wireguard(host: &str) -> (String, String) {
    let key = STANDARD.encode(rand::random::<[u8; 32]>());
    let peer = STANDARD.encode(rand::random::<[u8; 32]>());
    let config = format!(
        "[Interface]\nPrivateKey = {key}\nAddress = 10.9.0.2/32\nDNS = 10.9.0.1\n\n\
         [Peer]\nPublicKey = {peer}\nAllowedIPs = 0.0.0.0/0\nEndpoint = {host}:51820\n"
    );
    (config, key)
}

fn openvpn(host: &str) -> String {
    let signed = rcgen::generate_simple_self_signed(["vpn.example.com".to_owned()]).expect("a certificate");
    let (certificate, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
    format!(
        "client\ndev tun\nproto udp\nremote {host} 1194\nremote-cert-tls server\nauth-user-pass\n\
         <ca>\n{certificate}</ca>\n<cert>\n{certificate}</cert>\n<key>\n{key}</key>\n"
    )
}

fn with(mut body: Value, members: Value) -> Value {
    let Value::Object(changes) = members else { panic!("members") };
    body.as_object_mut().expect("a body").extend(changes);
    body
}

fn without(mut body: Value, member: &str) -> Value {
    body.as_object_mut().expect("a body").remove(member).expect("a member");
    body
}

impl Client {
    async fn save(&self, body: Value) -> Value {
        self.post(PROXIES, body).await.expect(201).body
    }

    async fn saved(&self, body: Value) -> String {
        self.save(body).await["id"].as_str().expect("an id").to_owned()
    }

    async fn replace(&self, id: &str, body: Value) -> Answer {
        self.send(self.request(Method::PUT, &format!("{PROXIES}/{id}")).json(&body)).await
    }

    async fn check(&self, id: &str) -> Answer {
        self.post(&format!("{PROXIES}/{id}/check"), json!({})).await
    }

    async fn proxies(&self) -> Value {
        self.get(PROXIES).await.expect(200).body["data"].clone()
    }
}

impl App {
    async fn proxy_rows(&self, account: AccountId) -> Vec<(String, Value)> {
        let rows = self.audit(account).await.into_iter().filter(|row| row.action.starts_with("proxy."));
        rows.map(|row| {
            assert_eq!((row.actor_type.as_str(), row.actor_account_id), ("customer", Some(account.as_uuid())));
            assert_eq!(row.target_resource_id.as_deref(), row.payload["proxy_id"].as_str());
            (row.action, row.payload)
        })
        .collect()
    }
}

/// Contract: proxies 1, 7, 9, 10; audit-log 11.
#[tokio::test]
async fn saved_proxy_never_reveals_its_secrets() {
    let app = with_encryption_key().set("log.filter", "trace").start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let (_, stranger) = app.customer(Tier::Enterprise).await;
    let created = client.post(PROXIES, with(socks5(), json!({"label": "  Zürich\u{a0}"}))).await.expect(201);
    let proxy = created.body;
    let id = proxy["id"].as_str().expect("an id").to_owned();
    insta::assert_json_snapshot!("proxy", stable(&proxy));
    assert_eq!(created.headers["location"], format!("{PROXIES}/{id}"));
    assert_eq!(proxy["updated_at"], proxy["created_at"]);

    let http = client.save(json!({"label": "Plain", "scheme": "http", "host": "93.184.216.34", "port": 8080})).await;
    assert_eq!((&http["username"], &http["has_password"]), (&Value::Null, &json!(false)));
    let (config, key) = wireguard("vpn.example.com");
    let tunnel = client.save(json!({"label": "Tunnel", "scheme": "wireguard", "config": config})).await;
    assert_eq!((&tunnel["host"], &tunnel["port"]), (&json!("vpn.example.com"), &json!(51820)));
    assert_eq!((&tunnel["has_config"], &tunnel["has_password"]), (&json!(true), &json!(false)));
    let profile = openvpn("vpn.example.com");
    let body = json!({"label": "VPN", "scheme": "openvpn", "config": profile, "username": "kit", "password": PASSWORD});
    let vpn = client.save(body).await;
    assert_eq!(
        (&vpn["host"], &vpn["port"], &vpn["has_password"]),
        (&json!("vpn.example.com"), &json!(1194), &json!(true))
    );

    assert_eq!(client.proxies().await, json!([vpn, tunnel, http, proxy]));
    assert_eq!(client.get(&format!("{PROXIES}/{id}")).await.expect(200).body, proxy);
    assert_eq!(stranger.proxies().await, json!([]));
    for id in [&id, &unknown_id("prx"), "x"] {
        let path = format!("{PROXIES}/{id}");
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::PUT, path.clone()),
            (Method::DELETE, path.clone()),
            (Method::POST, format!("{path}/check")),
        ] {
            let request =
                stranger.request(method, &path).header("x-service-account", account.to_string()).json(&socks5());
            stranger.send(request).await.problem(404, "not-found");
        }
    }
    client.delete(&format!("{PROXIES}/{id}")).await.expect(204);
    client.delete(&format!("{PROXIES}/{id}")).await.problem(404, "not-found");

    let key_line = profile.lines().skip_while(|line| *line != "<key>").nth(2).expect("a key").to_owned();
    for secret in [PASSWORD, &PASSWORD[..12], &key, &key_line] {
        assert_eq!(app.tables_with(secret).await, <[String; 0]>::default(), "{secret}");
        assert!(!app.log(0).contains(secret), "the log has {secret}");
    }
    let row = |action: &str, proxy: &Value| {
        (action.to_owned(), json!({"proxy_id": proxy["id"], "label": proxy["label"], "scheme": proxy["scheme"]}))
    };
    let expected = [
        row("proxy.created", &proxy),
        row("proxy.created", &http),
        row("proxy.created", &tunnel),
        row("proxy.created", &vpn),
        row("proxy.deleted", &proxy),
    ];
    assert_eq!(app.proxy_rows(account).await, expected);
    app.stop().await;
}

/// Contract: proxies 1 to 4. Nothing is created, and the response contains no secret.
#[tokio::test]
async fn invalid_proxy_is_400_on_its_field() {
    let app = with_encryption_key().start().await;
    let client = app.client().await;
    let (config, key) = wireguard("vpn.example.com");
    let tunnel = |config: &str| json!({"label": "Tunnel", "scheme": "wireguard", "config": config});
    let vpn = |config: &str| json!({"label": "VPN", "scheme": "openvpn", "config": config});
    let changed = |from: &str, to: &str| tunnel(&config.replace(from, to));
    let long = "x".repeat(256);
    for (body, field) in [
        (without(socks5(), "label"), "label"),
        (with(socks5(), json!({"label": " "})), "label"),
        (with(socks5(), json!({"label": "ü".repeat(121)})), "label"),
        (with(socks5(), json!({"label": "a\nb"})), "label"),
        (without(socks5(), "scheme"), "scheme"),
        (with(socks5(), json!({"scheme": "socks4"})), "scheme"),
        (without(socks5(), "host"), "host"),
        (with(socks5(), json!({"host": "a b"})), "host"),
        (with(socks5(), json!({"host": "127.0.0.1"})), "host"),
        (with(socks5(), json!({"host": "127.1"})), "host"),
        (with(socks5(), json!({"host": "::ffff:10.0.0.1"})), "host"),
        (without(socks5(), "port"), "port"),
        (with(socks5(), json!({"port": 0})), "port"),
        (with(socks5(), json!({"port": 65_536})), "port"),
        (with(socks5(), json!({"port": -1})), "port"),
        (with(socks5(), json!({"port": "1080"})), "port"),
        (with(socks5(), json!({"username": ""})), "username"),
        (with(socks5(), json!({"username": long})), "username"),
        (with(socks5(), json!({"username": "a\r\nProxy-Authorization: x"})), "username"),
        (with(socks5(), json!({"scheme": "http", "username": "a:b"})), "username"),
        (without(socks5(), "username"), "username"),
        (with(socks5(), json!({"password": ""})), "password"),
        (with(socks5(), json!({"password": format!("{PASSWORD}\u{7}")})), "password"),
        (with(socks5(), json!({"password": format!("{PASSWORD}{long}")})), "password"),
        (with(socks5(), json!({"password": 31_415_926})), "password"),
        (with(socks5(), json!({"config": config})), "config"),
        (with(tunnel(&config), json!({"host": "vpn.example.com"})), "host"),
        (with(tunnel(&config), json!({"port": 51_820})), "port"),
        (without(tunnel(&config), "config"), "config"),
        (with(tunnel(&config), json!({"config": null})), "config"),
        (tunnel("nonsense"), "config"),
        (tunnel(&wireguard("10.0.0.1").0), "config"),
        (tunnel(&format!("{config}#{}", "x".repeat(16 * 1024))), "config"),
        (changed("DNS = 10.9.0.1\n", ""), "config"),
        (changed("[Peer]", "PostUp = touch /tmp/never-seen\n[Peer]"), "config"),
        (changed("PrivateKey = ", "PrivateKey = never-seen"), "config"),
        (vpn("nonsense"), "config"),
        (vpn(&config), "config"),
        (vpn(&openvpn("10.0.0.1")), "config"),
        (vpn(&format!("{}up /tmp/never-seen\n", openvpn("vpn.example.com"))), "config"),
        (vpn(&format!("{}plugin /tmp/never-seen.so\n", openvpn("vpn.example.com"))), "config"),
        (vpn(&format!("{}#{}\n", openvpn("vpn.example.com"), "x".repeat(64 * 1024))), "config"),
    ] {
        let refused = client.post(PROXIES, body).await.invalid(field).body.to_string();
        for secret in [PASSWORD, &key, "31415926", "never-seen"] {
            assert!(!refused.contains(secret), "{refused}");
        }
    }
    for (directive, line) in [("PostUp", "PostUp = x"), ("Jc", "Jc = 4"), ("Table", "Table = off")] {
        let refused = client.post(PROXIES, changed("[Peer]", &format!("{line}\n[Peer]"))).await;
        let spared = refused.status == 201 && directive == "Table";
        if !spared {
            let errors = refused.invalid("config").body["errors"].clone();
            assert!(errors[0]["message"].as_str().is_some_and(|told| told.contains(directive)), "{errors}");
        }
    }
    let refused = client.post(PROXIES, vpn(&format!("{}script-security 2\n", openvpn("vpn.example.com")))).await;
    assert!(refused.invalid("config").body["errors"][0]["message"].to_string().contains("script-security"));
    let many = client.post(PROXIES, json!({"label": "", "scheme": "http", "port": 0, "password": ""})).await;
    for field in ["label", "host", "port", "password", "username"] {
        assert!(many.body["errors"].to_string().contains(&format!("\"{field}\"")), "{}", many.body);
    }
    let kept = client.proxies().await;
    assert!(kept.as_array().is_some_and(|kept| kept.iter().all(|proxy| proxy["scheme"] == "wireguard")), "{kept}");
    app.stop().await;

    for setting in ["egress.allow_private_proxies", "sessions.allow_private_targets"] {
        let app = with_encryption_key().set(setting, "true").start().await;
        let client = app.client().await;
        assert_eq!(client.save(with(socks5(), json!({"host": "127.1"}))).await["host"], "127.0.0.1", "{setting}");
        assert_eq!(client.save(tunnel(&wireguard("10.0.0.1").0)).await["host"], "10.0.0.1", "{setting}");
        app.stop().await;
    }
}

/// Contract: proxies 5, 6, 9. A replacement keeps the secrets that it does not mention.
#[tokio::test]
async fn new_host_of_a_proxy_requires_the_password() {
    let app = with_encryption_key().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let id = client.saved(socks5()).await;
    let kept = || without(socks5(), "password");
    let same = client.replace(&id, with(kept(), json!({"label": "Home", "username": "fleet"}))).await.expect(200).body;
    assert_eq!(
        (&same["label"], &same["username"], &same["has_password"]),
        (&json!("Home"), &json!("fleet"), &json!(true))
    );
    assert_ne!(same["updated_at"], same["created_at"]);
    assert_eq!(client.get(&format!("{PROXIES}/{id}")).await.expect(200).body, same);
    let unnamed =
        client.replace(&id, with(without(kept(), "username"), json!({"label": "Home"}))).await.expect(200).body;
    assert_eq!((&unnamed["username"], &unnamed["has_password"]), (&json!("fleet"), &json!(true)));
    let same = client.replace(&id, with(kept(), json!({"label": "Home", "username": "fleet"}))).await.expect(200).body;
    client.replace(&id, with(socks5(), json!({"scheme": "http"}))).await.invalid("scheme");
    for moved in [json!({"host": "evil.example.com"}), json!({"port": 1081})] {
        client.replace(&id, with(kept(), moved.clone())).await.invalid("password");
        assert_eq!(client.get(&format!("{PROXIES}/{id}")).await.expect(200).body, same);
    }
    client.replace(&id, with(kept(), json!({"host": "PROXY.example.COM"}))).await.expect(200);
    let moved = client.replace(&id, with(socks5(), json!({"host": "other.example.com"}))).await.expect(200).body;
    assert_eq!((&moved["host"], &moved["has_password"]), (&json!("other.example.com"), &json!(true)));
    let unnamed = without(with(socks5(), json!({"host": "other.example.com"})), "username");
    assert_eq!(client.replace(&id, unnamed).await.expect(200).body["username"], moved["username"]);
    let bare = with(socks5(), json!({"host": "third.example.com", "password": null}));
    assert_eq!(client.replace(&id, bare).await.expect(200).body["has_password"], false);
    client.replace(&id, with(kept(), json!({"host": "fourth.example.com"}))).await.expect(200);

    let (config, _) = wireguard("vpn.example.com");
    let tunnel =
        json!({"label": "Tunnel", "scheme": "wireguard", "config": config, "username": "kit", "password": PASSWORD});
    let id = client.saved(tunnel.clone()).await;
    let named =
        client.replace(&id, json!({"label": "T", "scheme": "wireguard", "username": "kit"})).await.expect(200).body;
    assert_eq!(
        (&named["host"], &named["has_config"], &named["has_password"]),
        (&json!("vpn.example.com"), &json!(true), &json!(true))
    );
    client.replace(&id, without(tunnel.clone(), "password")).await.expect(200);
    client.replace(&id, with(tunnel.clone(), json!({"config": null}))).await.invalid("config");
    let another = with(tunnel, json!({"config": wireguard("vpn.example.com").0}));
    client.replace(&id, without(another.clone(), "password")).await.invalid("password");
    client.replace(&id, another).await.expect(200);
    let actions: Vec<_> = app.proxy_rows(account).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions.iter().filter(|action| *action == "proxy.updated").count(), 11, "{actions:?}");
    app.stop().await;
}

/// Contract: proxies 8. Concurrent creates do not exceed the limit.
#[tokio::test]
async fn number_of_proxies_per_account_is_limited() {
    let app = with_encryption_key().set("limits.proxies", "3").start().await;
    let client = app.client().await;
    let save = |_| {
        let client = client.clone();
        async move { client.post(PROXIES, socks5()).await }
    };
    let answers = at_once((0..6).map(save)).await;
    let (saved, full): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((saved.len(), full.len()), (3, 3));
    for refused in full {
        let body = refused.problem(403, "feature-unavailable").body;
        assert_eq!((&body["current_proxies"], &body["limit"]), (&json!(3), &json!(3)));
    }
    let id = saved[0].body["id"].as_str().expect("an id");
    client.delete(&format!("{PROXIES}/{id}")).await.expect(204);
    client.saved(socks5()).await;
    app.stop().await;
}

/// Contract: proxies 10; command-line 10.
#[tokio::test]
async fn proxy_without_deployment_key_is_503() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let refused = client.post(PROXIES, socks5()).await.problem(503, "feature-unavailable");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.contains("MFA_ENCRYPTION_KEY")));
    client.replace(&unknown_id("prx"), socks5()).await.problem(503, "feature-unavailable");
    assert_eq!(client.proxies().await, json!([]));
    client.delete(&format!("{PROXIES}/{}", unknown_id("prx"))).await.problem(404, "not-found");
    client.post("/v1/agent-sessions", json!({"proxy_id": unknown_id("prx")})).await.problem(404, "not-found");
    app.stop().await;

    let app = with_encryption_key().start().await;
    let client = app.client().await;
    let id = client.saved(socks5()).await;
    let other_key = "update proxies set sealed_password = set_byte(sealed_password, 0, 255 - get_byte(sealed_password, 0)) where id = $1";
    app.execute(other_key, uuid_of(&id)).await;
    client.check(&id).await.problem(503, "feature-unavailable");
    client.post("/v1/agent-sessions", json!({"proxy_id": id})).await.problem(503, "feature-unavailable");
    assert_eq!(app.count("select count(*) from sessions").await, 0);
    let doctor = app.run(&["doctor", "--json"]).await.json();
    assert!(doctor.to_string().contains("configured keys: proxies 1"), "{doctor}");
    // A replacement that contains all secrets needs no decryption.
    client.replace(&id, socks5()).await.expect(200);
    app.stop().await;
}

/// Contract: proxies 11; retention 11.
#[tokio::test]
async fn proxies_of_a_deleted_account_are_purged_after_a_day() {
    let app = with_encryption_key().start().await;
    let (ada, (_, other)) = (app.person(Tier::Enterprise).await, app.customer(Tier::Enterprise).await);
    for client in [&ada.client, &other] {
        client.saved(socks5()).await;
    }
    let delete = ada.client.request(Method::DELETE, "/v1/account/me").json(&json!({"confirm": "delete-account"}));
    ada.client.send(delete).await.expect(204);
    let purge = async || {
        let purged = app.run(&["sweep", "retention", "--json"]).await.code(0).json();
        (purged["rows"]["proxy_secrets"].clone(), app.count("select count(*) from proxies").await)
    };
    assert_eq!(purge().await, (json!(0), 2));
    let aged = "update proxies set lost_at = lost_at - interval '24 hours 1 second' where account_id = $1";
    app.execute(aged, ada.account.as_uuid()).await;
    assert_eq!(purge().await, (json!(1), 1));
    app.stop().await;
}

/// The proxy accepts one user and refuses all targets; the other server accepts connections and never responds.
struct Server {
    port: u16,
    _running: JoinSet<()>,
}

impl Server {
    async fn start(speaks: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                if speaks {
                    tokio::spawn(greet(stream));
                } else {
                    silent.push(stream);
                }
            }
        });
        Self { port, _running: running }
    }

    fn body(&self) -> Value {
        with(socks5(), json!({"host": "127.0.0.1", "port": self.port}))
    }
}

/// RFC 1928 and RFC 1929. Refuses every request.
async fn greet(mut stream: TcpStream) -> std::io::Result<()> {
    let methods = stream.read_u16().await? & 0xff;
    stream.read_exact(&mut vec![0; methods.into()]).await?;
    stream.write_all(&[5, 2]).await?;
    stream.read_u8().await?;
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut text = vec![0; stream.read_u8().await?.into()];
        stream.read_exact(&mut text).await?;
        said.push(text);
    }
    let known = said == [b"kit".as_slice(), PASSWORD.as_bytes()];
    stream.write_all(&[1, u8::from(!known)]).await?;
    let mut asked = [0; 512];
    if known && stream.read(&mut asked).await? > 0 {
        stream.write_all(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    }
    Ok(())
}

/// Contract: proxies 12, 13; rate-limits 11. A check leaves no row.
#[tokio::test]
async fn proxy_check_reports_success_or_reason() {
    let app = with_encryption_key()
        .set("egress.allow_private_proxies", "true")
        .set("rate_limits.proxy_check_per_minute", "4")
        .start()
        .await;
    let client = app.client().await;
    let server = Server::start(true).await;
    let id = client.saved(server.body()).await;
    let works = client.check(&id).await.expect(200).body;
    let expected = ["reachable", "latency_ms", "exit_address", "capabilities", "error"];
    assert_eq!(members(&works), BTreeSet::from(expected));
    assert_eq!((&works["reachable"], &works["error"]), (&json!(true), &Value::Null), "{works}");
    assert!(works["latency_ms"].is_u64(), "{works}");

    client.replace(&id, with(server.body(), json!({"password": "another"}))).await.expect(200);
    let unknown = client.check(&id).await.expect(200).body;
    assert_eq!((&unknown["reachable"], &unknown["latency_ms"]), (&json!(false), &Value::Null), "{unknown}");
    assert!(unknown["error"].as_str().is_some_and(|error| error.contains("credentials")), "{unknown}");
    let unused = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address").port();
    client.replace(&id, with(server.body(), json!({"port": unused}))).await.expect(200);
    let refused = client.check(&id).await.expect(200).body;
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("refused")), "{refused}");
    assert_eq!(app.count("select count(*) from proxy_checks").await, 0);

    client.check(&id).await.expect(200);
    let limited = client.check(&id).await.problem(429, "rate-limited");
    assert!(limited.headers.contains_key("retry-after"));
    // A worker does not connect to a private address either. It checks the addresses that a host name resolves to.
    app.stop().await;
    let app = with_encryption_key().start().await;
    let client = app.client().await;
    let id = client.saved(with(server.body(), json!({"host": "localhost"}))).await;
    let near = client.check(&id).await.expect(200).body;
    assert_eq!(near["reachable"], false, "{near}");
    assert!(
        near["error"].as_str().is_some_and(|error| error.contains("public internet") || error.contains("resolve")),
        "{near}"
    );
    app.stop().await;
}

/// Contract: proxies 13, 14.
#[tokio::test]
async fn second_proxy_check_is_409_and_worker_death_is_503() {
    let builder = with_encryption_key()
        .set("egress.allow_private_proxies", "true")
        .roles(&[Role::Api, Role::Worker])
        .in_processes();
    let mut app = builder.start().await;
    let (client, other) = (app.client().await, app.client().await);
    let (silent, server) = (Server::start(false).await, Server::start(true).await);
    let id = client.saved(silent.body()).await;
    let checking = {
        let (client, id) = (client.clone(), id.clone());
        tokio::spawn(async move { client.check(&id).await })
    };
    let begun =
        async || (app.count("select count(*) from proxy_checks where begun_at is not null").await == 1).then_some(());
    eventually(Duration::from_secs(10), "the check has begun", begun).await;
    client.check(&id).await.problem(409, "conflict");
    let theirs = other.saved(server.body()).await;
    assert_eq!(other.check(&theirs).await.expect(200).body["reachable"], true);
    assert_eq!(app.count("select count(*) from proxy_checks where sealed_secrets is not null").await, 0);
    app.signal(1, Signal::SIGKILL).await;
    app.start(Role::Worker);
    let lost = checking.await.expect("an answer").problem(503, "feature-unavailable");
    assert!(lost.headers.contains_key("retry-after"));
    assert_eq!(app.count("select count(*) from proxy_checks").await, 0);
    app.ready().await;
    client.replace(&id, server.body()).await.expect(200);
    assert_eq!(client.check(&id).await.expect(200).body["reachable"], true);
    app.stop().await;
}

/// Contract: proxies 14.
#[tokio::test]
async fn proxy_check_without_worker_is_503() {
    let app = with_encryption_key().set("worker.driver", "none").start().await;
    let client = app.client().await;
    let id = client.saved(socks5()).await;
    client.check(&id).await.problem(503, "driver-not-integrated");
    assert_eq!(app.count("select count(*) from proxy_checks").await, 0);
    app.stop().await;
}

/// Contract: proxies 7, 15, 16; agents 2; sessions 4. A proxy of another account is a 404. The session's copy is deleted when
/// it ends.
#[tokio::test]
async fn agent_session_uses_a_proxy_of_its_account() {
    let app = with_encryption_key()
        .set("egress.allow_private_proxies", "true")
        .set("sessions.require_customer_egress", "true")
        .start()
        .await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let stranger = app.client().await;
    let server = Server::start(true).await;
    let id = client.saved(server.body()).await;
    let agents = async |client: &Client, body: Value| client.post("/v1/agent-sessions", body).await;
    agents(&client, json!({})).await.invalid("proxy_id");
    agents(&client, json!({"proxy_id": null})).await.invalid("proxy_id");
    client.post("/v1/sessions", json!({})).await.invalid("proxy_id");
    for body in [json!({"proxy_id": unknown_id("prx")}), json!({"proxy_id": "x"})] {
        agents(&client, body).await.problem(404, "not-found");
    }
    agents(&stranger, json!({"proxy_id": id})).await.problem(404, "not-found");
    assert_eq!(app.count("select count(*) from sessions").await, 0);

    let request = client.request(Method::POST, "/v1/agent-sessions").header("idempotency-key", "k-1");
    let request = request.json(&json!({"proxy_id": id, "label": "out"}));
    let created = client.send(request.try_clone().expect("a body")).await.expect(201).body;
    assert_eq!(client.send(request).await.expect(201).body, created);
    assert_eq!(created["proxy_id"], id.as_str());
    let agent = created["id"].as_str().expect("an id");
    let path = format!("/v1/agent-sessions/{agent}");
    assert_eq!(client.get(&path).await.expect(200).body["proxy_id"], id.as_str());
    assert_eq!(client.get("/v1/agent-sessions").await.expect(200).body["data"][0]["proxy_id"], id.as_str());
    let kept = "select count(*) from session_proxies where host = '127.0.0.1'";
    assert_eq!(app.count(kept).await, 1);
    assert_eq!(app.tables_with(PASSWORD).await, <[String; 0]>::default());
    let used = client.delete(&format!("{PROXIES}/{id}")).await.problem(409, "conflict").body;
    assert_eq!(used["agent_session_id"], agent);
    client.replace(&id, with(socks5(), json!({"host": "elsewhere.example.com"}))).await.expect(200);
    assert_eq!(app.count(kept).await, 1);
    client.delete(&path).await.expect(204);
    assert_eq!(app.count("select count(*) from session_proxies").await, 0);
    client.delete(&format!("{PROXIES}/{id}")).await.expect(204);
    assert_eq!(client.get(&path).await.expect(200).body["proxy_id"], id.as_str());
    let actions: Vec<_> = app.proxy_rows(account).await.into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["proxy.created", "proxy.updated", "proxy.deleted"]);
    app.stop().await;
}

/// Contract: proxies 17. Two sessions would receive each other's packets.
#[tokio::test]
async fn wireguard_configuration_in_use_is_409() {
    let app = with_encryption_key().set("egress.allow_private_proxies", "true").start().await;
    let client = app.client().await;
    // The server does not respond, so that the opening of a session takes a while.
    let silent = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let server = silent.local_addr().expect("an address").to_string();
    let config = wireguard("127.0.0.1").0.replace("127.0.0.1:51820", &server);
    let id = client.saved(json!({"label": "Home", "scheme": "wireguard", "config": config})).await;
    let leave = json!({"proxy_id": id});
    let first = {
        let (client, leave) = (client.clone(), leave.clone());
        tokio::spawn(async move { client.post("/v1/agent-sessions", leave).await })
    };
    let agent = eventually(Duration::from_secs(10), "the first agent session is created", async || {
        client.get("/v1/agent-sessions").await.expect(200).body["data"][0]["id"].as_str().map(str::to_owned)
    });
    let agent = agent.await;
    for refused in [client.post("/v1/agent-sessions", leave.clone()).await, client.check(&id).await] {
        assert_eq!(refused.problem(409, "conflict").body["agent_session_id"], agent.as_str());
    }
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    first.await.expect("an answer").problem(410, "session-destroyed");
    let second = tokio::spawn({
        let client = client.clone();
        async move { client.post("/v1/agent-sessions", leave).await }
    });
    let opening = async || (app.count("select count(*) from sessions where live").await == 1).then_some(());
    eventually(Duration::from_secs(10), "the second session is live", opening).await;
    second.abort();
    app.stop().await;
}

/// Contract: proxies 1, 15; authorization 9. The admin lists only its own.
#[tokio::test]
async fn admin_uses_proxies_of_the_owners_account() {
    let app = with_encryption_key().set("egress.allow_private_proxies", "true").start().await;
    let (owner, owners) = app.customer(Tier::Enterprise).await;
    let (admin, admins) = app.customer(Tier::Enterprise).await;
    app.join_team(owner, admin, "admin").await;
    let server = Server::start(true).await;
    let (theirs, own) = (owners.saved(server.body()).await, admins.saved(server.body()).await);
    let create = async |proxy: &str| {
        let request = admins.request(Method::POST, "/v1/agent-sessions").header("x-service-account", owner.to_string());
        admins.send(request.json(&json!({"proxy_id": proxy}))).await
    };
    let agent = create(&theirs).await.expect(201).body;
    assert_eq!((&agent["account_id"], &agent["proxy_id"]), (&json!(owner), &json!(theirs)));
    create(&own).await.problem(404, "not-found");
    let list = admins.request(Method::GET, PROXIES).header("x-service-account", owner.to_string());
    let listed = admins.send(list).await.expect(200).body;
    assert_eq!((listed["data"].as_array().map(Vec::len), &listed["data"][0]["id"]), (Some(1), &json!(own)));
    app.stop().await;
}
