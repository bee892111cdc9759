//! Contract: egress 11 to 17.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

use crate::support::app::Builder;
use crate::support::names::NameServer;
use crate::support::namespaces::{PUBLIC, furnish, in_network_namespace};
use crate::support::people::ENCRYPTION_KEY;
use crate::support::proxy::{Manner, Proxy, USER};
use crate::support::{Answer, App, Client, Site, at_once, eventually};
use crate::webkit::{assert_failed, text};

pub fn allowing_local_proxies(app: Builder) -> Builder {
    app.set("mfa.encryption_key", ENCRYPTION_KEY).set("egress.allow_private_proxies", "true")
}

impl Client {
    pub async fn leave_through(&self, proxy: &Value) -> Answer {
        let saved = self.post("/v1/account/me/proxies", proxy.clone()).await.expect(201).body;
        self.post("/v1/agent-sessions", json!({"proxy_id": saved["id"]})).await
    }

    pub async fn session_through(&self, proxy: &Value) -> String {
        let agent = self.leave_through(proxy).await.expect(201).body;
        agent["session_id"].as_str().expect("an id").to_owned()
    }
}

/// Contract: egress 13, 16. It leaves no session.
#[tokio::test]
async fn create_with_a_broken_proxy_is_502() {
    let app = allowing_local_proxies(App::simulated()).set("log.filter", "debug").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut proxies = Vec::new();
    let mut cases = Vec::new();
    for scheme in ["socks5", "http"] {
        for (manner, words) in [
            (Manner::Mute, "the proxy did not answer in time"),
            (Manner::Garbage, "the proxy does not speak its protocol"),
            (Manner::HangsUp, "the proxy closed the connection without an answer"),
            (Manner::HangsUpLater, "the proxy closed the connection without an answer"),
        ] {
            let proxy = Proxy::start(scheme, manner, nowhere).await;
            cases.push((proxy.body(), words));
            proxies.push(proxy);
        }
        let proxy = Proxy::start(scheme, Manner::Good, nowhere).await;
        let mut body = proxy.body();
        body["password"] = json!("another-never-seen");
        cases.push((body.clone(), "the proxy does not accept the credentials"));
        body.as_object_mut().expect("a body").retain(|name, _| name != "username" && name != "password");
        cases.push((body, "the proxy does not accept the credentials"));
        proxies.push(proxy);
        let gone = Proxy::start(scheme, Manner::Good, nowhere).await.body();
        cases.push((gone, "the proxy refused the connection"));
        let mut unknown = proxies[0].body();
        unknown["scheme"] = json!(scheme);
        unknown["host"] = json!("no-such-proxy.invalid");
        cases.push((unknown, "the proxy's name does not resolve"));
    }
    let began = Instant::now();
    let answers = at_once(cases.into_iter().map(|(body, words)| {
        let client = client.clone();
        async move { (client.leave_through(&body).await, body, words) }
    }))
    .await;
    for (answer, body, words) in answers {
        let problem = answer.problem(502, "driver-error").body.to_string();
        assert!(problem.contains(words), "{body}: {problem}");
        assert!(!problem.contains(USER) && !problem.contains("never-seen"), "{problem}");
    }
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(app.count("select count(*) from sessions where live").await, 0);
    assert_eq!(app.count("select count(*) from session_proxies").await, 0);
    assert!(!app.log(0).contains("never-seen"), "the log has a password");
    app.stop().await;

    // The worker checks the addresses that a proxy's host name resolves to.
    let app = App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).start().await;
    let client = app.client().await;
    let proxy = Proxy::start("socks5", Manner::Good, nowhere).await;
    let mut body = proxy.body();
    body["host"] = json!("localhost");
    let problem = client.leave_through(&body).await.problem(502, "driver-error").body.to_string();
    assert!(problem.contains("the proxy's address is outside the public internet"), "{problem}");
    app.stop().await;
}

/// Contract: egress 13. The check happens at every connection, which uses the checked address.
#[tokio::test]
async fn proxy_name_that_becomes_private_is_not_dialled() {
    in_network_namespace("egress::leaving::changing_names_inside_network_namespace").await;
}

#[tokio::test]
#[ignore = "runs in a network namespace that another test starts"]
async fn changing_names_inside_network_namespace() {
    const NAME: &str = "proxy.example";
    let _names = furnish(&[]);
    // Without probes, opening a session connects to the proxy once. The proxy listens on every address of the name.
    let names = NameServer::start(&[(NAME, &[PUBLIC, "127.0.0.1", PUBLIC, "10.11.12.13"])]).await;
    let app = App::simulated().set("mfa.encryption_key", ENCRYPTION_KEY).set("egress.probes", "false").start().await;
    let client = app.client().await;
    let proxy =
        Proxy::start_at(Ipv4Addr::UNSPECIFIED, "socks5", Manner::Good, SocketAddr::from(([127, 0, 0, 1], 9))).await;
    let mut body = proxy.body();
    body["host"] = json!(NAME);
    let saved = client.post("/v1/account/me/proxies", body).await.expect(201).body;
    for round in [1_usize, 3] {
        let request = json!({"proxy_id": saved["id"]});
        client.post("/v1/agent-sessions", request.clone()).await.expect(201);
        assert_eq!((names.asked_for(NAME), proxy.visits()), (round, round.div_ceil(2)));
        let problem = client.post("/v1/agent-sessions", request).await.problem(502, "driver-error").body.to_string();
        assert!(problem.contains("the proxy's address is outside the public internet"), "{problem}");
        assert_eq!((names.asked_for(NAME), proxy.visits()), (round + 1, round.div_ceil(2)));
    }
    app.stop().await;
}

/// Contract: egress 17; events 1. They are known when the session is created.
#[tokio::test]
async fn proxy_capabilities_are_published_once_and_on_change() {
    let site = Site::start().await;
    let address: SocketAddr = site.base_url.trim_start_matches("http://").parse().expect("an address");
    let app = allowing_local_proxies(App::simulated()).set("egress.probe_interval", "200ms").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let proxy = Proxy::start("socks5", Manner::Good, address).await;
    let session = client.session_through(&proxy.body()).await;
    let path = format!("/v1/sessions/{session}");
    let first = client.get(&path).await.expect(200).body;
    let none =
        json!({"udp_associate": false, "quic_route": "tcp_fallback", "dns_remote_resolve": true, "warnings": []});
    assert_eq!(first["egress_capabilities"], none);
    assert_eq!(first["egress_capability_report"]["connect"]["outcome"], "connected");
    assert_eq!(first["egress_capability_report"]["datagram"]["outcome"], "not_supported");
    let capability_events = async || {
        let events = app.events(&session).await.into_iter();
        let changes = events.filter(|(event, _)| event == "session.egress_capability_changed");
        changes.map(|(_, data)| data).collect::<Vec<_>>()
    };
    assert_eq!(capability_events().await, [json!({"session_id": session, "egress_capabilities": none})]);

    let before = proxy.connects();
    eventually(Duration::from_secs(20), "further measurements", async || (proxy.connects() > before + 2).then_some(()))
        .await;
    assert_eq!(capability_events().await.len(), 1);
    proxy.relay(true);
    let changed =
        eventually(Duration::from_secs(20), "a change", async || capability_events().await.into_iter().nth(1)).await;
    let all = json!({"udp_associate": true, "quic_route": "tcp_fallback", "dns_remote_resolve": true, "warnings": []});
    assert_eq!(changed, json!({"session_id": session, "egress_capabilities": all}));
    assert_eq!(client.get(&path).await.expect(200).body["egress_capabilities"], all);
    client.delete(&path).await.expect(204);
    let ended = proxy.connects();
    client.session().await;
    let still = async || (app.count("select count(*) from session_proxies").await == 0).then_some(());
    eventually(Duration::from_secs(10), "the end", still).await;
    assert!(proxy.connects() <= ended + 1, "{} {ended}", proxy.connects());

    let http = Proxy::start("http", Manner::Good, address).await;
    for session in [client.session_through(&http.body()).await, client.session().await] {
        let shown = client.get(&format!("/v1/sessions/{session}")).await.expect(200).body;
        assert_eq!((&shown["egress_capabilities"], &shown["egress_capability_report"]), (&Value::Null, &Value::Null));
    }
    app.stop().await;

    let app = allowing_local_proxies(App::simulated()).set("egress.probes", "false").start().await;
    let client = app.client().await;
    let before = proxy.connects();
    let session = client.session_through(&proxy.body()).await;
    assert_eq!(
        client.get(&format!("/v1/sessions/{session}")).await.expect(200).body["egress_capabilities"],
        Value::Null
    );
    assert_eq!(proxy.connects(), before, "the proxy was probed");
    app.stop().await;
}

/// Direct connections to a site, and queries to this machine's name server.
pub struct Watch {
    visits: Arc<AtomicUsize>,
    questions: Arc<AtomicUsize>,
    _watching: JoinSet<()>,
}

impl Watch {
    /// From the public address, at the site's port.
    pub async fn start(site: SocketAddr) -> Self {
        let (visits, questions) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let mut watching = JoinSet::new();
        let door = TcpListener::bind((PUBLIC, site.port())).await.expect("a port");
        let count = Arc::clone(&visits);
        watching.spawn(async move {
            while let Ok((mut visitor, _)) = door.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut site = TcpStream::connect(site).await?;
                    tokio::io::copy_bidirectional(&mut visitor, &mut site).await
                });
            }
        });
        let name_server = UdpSocket::bind(("127.0.0.1", 53)).await.expect("a port");
        let count = Arc::clone(&questions);
        watching.spawn(async move {
            while name_server.recv_from(&mut [0; 512]).await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { visits, questions, _watching: watching }
    }

    /// Direct connections and name queries.
    pub fn counts(&self) -> (usize, usize) {
        (self.visits.load(Ordering::SeqCst), self.questions.load(Ordering::SeqCst))
    }
}

/// Contract: egress 11, 12, 14, 15. Pages load only through the proxy, although the site can be reached directly. The worker
/// resolves no name itself.
#[tokio::test]
async fn webkit_traffic_uses_only_its_proxy() {
    in_network_namespace("egress::leaving::proxy_inside_network_namespace").await;
}

#[tokio::test]
#[ignore = "runs in a network namespace that another test starts"]
async fn proxy_inside_network_namespace() {
    let _names = furnish(&[(PUBLIC, "site.example")]);
    let site = Site::start().await;
    let address: SocketAddr = site.base_url.trim_start_matches("http://").parse().expect("an address");
    let watch = Watch::start(address).await;
    let app = allowing_local_proxies(App::webkit()).set("sessions.allow_private_targets", "false").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let url = |host: &str, path: &str| format!("http://{host}:{}{path}", address.port());

    for scheme in ["socks5", "http"] {
        let proxy = Proxy::start(scheme, Manner::Good, address).await;
        let session = client.session_through(&proxy.body()).await;
        // A name that only the proxy can resolve, one that this machine can resolve as well, and an address.
        for host in ["only-there.example", "site.example", PUBLIC] {
            let before = proxy.connects();
            client.navigate(&session, &url(host, "/")).await;
            assert_eq!(text(&client, &session, "#title").await, "Home", "{scheme} {host}");
            assert!(proxy.connects() > before, "{scheme} {host}");
        }
        // Private addresses are blocked as without a proxy, and the worker itself serves the welcome page.
        let (hits, before) = (site.hits(), proxy.connects());
        client.navigate(&session, &url("site.example", "/fetch?url=http://127.0.0.1/hit")).await;
        let outcome = async || {
            let outcome = text(&client, &session, "#outcome").await;
            outcome.as_str().filter(|outcome| !outcome.is_empty()).map(ToOwned::to_owned)
        };
        assert_eq!(eventually(Duration::from_secs(10), "an outcome", outcome).await, "refused", "{scheme}");
        assert_eq!(site.hits(), hits);
        client.navigate(&session, "http://welcome.kitfleet.internal/").await;
        assert!(proxy.connects() <= before + 1, "{scheme}");
        assert_eq!(watch.counts(), (0, 0), "{scheme}");

        let other = client.session_through(&proxy.body()).await;
        client.navigate(&other, &url("site.example", "/")).await;
        drop(proxy);
        let began = Instant::now();
        for (session, host) in [(&session, "site.example"), (&other, "only-there.example")] {
            let failed = client.operate(session, "navigate", json!({"url": url(host, "/")})).await;
            let problem = failed.problem(502, "driver-error").body["detail"].to_string();
            // WebKit may have reused an open connection and be the first to notice its end.
            let is_terminated = host == "site.example" && problem.contains("Connection terminated unexpectedly");
            assert!(is_terminated || problem.contains("the proxy refused the connection"), "{scheme} {problem}");
            assert_failed(&app, &client, session, "navigate", "DriverError").await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(watch.counts(), (0, 0), "{scheme}");
    }
    // A session without a proxy shows that the site could be reached directly.
    let session = client.session().await;
    client.navigate(&session, &url("site.example", "/")).await;
    assert!(watch.counts().0 > 0);
    app.stop().await;
}
