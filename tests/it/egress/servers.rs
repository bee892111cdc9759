//! Tunnels with the servers of Debian packages (contract: egress 11 to 16).
//!
//! The targets of a tunnel are in another network namespace than the worker, so that only traffic through the tunnel reaches
//! them.

#[allow(dead_code, reason = "the tunnels' own tests use more of the module")]
#[path = "../../../egress/tunnels/tests/servers/support/mod.rs"]
mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use self::support::openvpn::Guard;
use self::support::{FAR, Far, openvpn, run, wireguard};
use super::leaving::{Watch, allowing_local_proxies};
use crate::support::namespaces::{PUBLIC, furnish, in_network_namespace};
use crate::support::{App, Client, Site, eventually};
use crate::webkit::{assert_failed, text};

enum Server {
    WireGuard(Box<wireguard::Server>),
    OpenVpn(Box<openvpn::Server>),
}

impl Server {
    async fn start(scheme: &str) -> Self {
        let server = match scheme {
            "wireguard" => Self::WireGuard(Box::new(wireguard::Server::start().await)),
            _ => Self::OpenVpn(Box::new(openvpn::Server::start("udp", Guard::Crypt, "").await)),
        };
        server.far().there(|| run(&format!("ip addr add {PUBLIC}/32 dev lo")));
        server
    }

    fn far(&self) -> &Far {
        match self {
            Self::WireGuard(server) => &server.far,
            Self::OpenVpn(server) => &server.far,
        }
    }

    fn body(&self) -> Value {
        match self {
            Self::WireGuard(server) => {
                let config = server.file().replace("AllowedIPs = ", &format!("AllowedIPs = {PUBLIC}/32, "));
                json!({"label": "Tunnel", "scheme": "wireguard", "config": config})
            }
            Self::OpenVpn(server) => json!({
                "label": "Tunnel", "scheme": "openvpn", "config": server.profile, "username": "alice", "password": "s3cret",
            }),
        }
    }

    fn kill(&self) {
        match self {
            Self::WireGuard(server) => server.signal(Signal::SIGKILL),
            Self::OpenVpn(server) => server.signal(Signal::SIGKILL),
        }
    }
}

fn network() -> String {
    let asked = "ip -o link; ip route show table all; ip -6 route show table all";
    let output = std::process::Command::new("sh").args(["-c", asked]).output().expect("sh runs");
    String::from_utf8(output.stdout).expect("text")
}

/// Shows the numbers of successful and failed requests.
fn requesting_page(urls: &[String]) -> String {
    let urls = json!(urls);
    format!(
        "<p id=reached>0</p><p id=refused>0</p><script>
         const count = id => () => {{ const at = document.querySelector(id); at.textContent = Number(at.textContent) + 1 }};
         const ask = url => fetch(url, {{mode: 'no-cors', cache: 'no-store'}}).then(count('#reached'), count('#refused'))
             .then(() => setTimeout(ask, 100, url));
         {urls}.forEach(ask)</script>"
    )
}

async fn until_count(client: &Client, session: &str, selector: &str, least: u32) {
    eventually(Duration::from_secs(20), selector, async || {
        let count = text(client, session, selector).await;
        count.as_str()?.parse::<u32>().ok().filter(|count| *count >= least)
    })
    .await;
}

/// Contract: egress 11, 12, 14, 15. Pages load only through the tunnel, although the site can be reached directly. The worker
/// resolves no name itself. A killed worker leaves no process, device or route behind.
#[tokio::test]
async fn webkit_traffic_uses_only_its_tunnel() {
    in_network_namespace("egress::servers::tunnel_inside_network_namespace").await;
}

#[tokio::test]
#[ignore = "runs in a network namespace that another test starts"]
async fn tunnel_inside_network_namespace() {
    let _names = furnish(&[(PUBLIC, "site.test")]);
    run("mount -t tmpfs tmpfs /run; mkdir /run/wireguard");
    let near = Site::start().await;
    let address: SocketAddr = near.base_url.trim_start_matches("http://").parse().expect("an address");
    let watch = Watch::start(address).await;
    let mut app = allowing_local_proxies(App::webkit()).set("sessions.allow_private_targets", "false").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let url = |host: &str, path: &str| format!("http://{host}:{}{path}", address.port());

    for scheme in ["wireguard", "openvpn"] {
        let server = Server::start(scheme).await;
        let far = Site::start_on(server.far().listen((Ipv4Addr::UNSPECIFIED, address.port()).into())).await;
        if scheme == "openvpn" {
            let mut body = server.body();
            body["password"] = json!("another-never-seen");
            let told = client.leave_through(&body).await.problem(502, "driver-error").body.to_string();
            assert!(told.contains("refused the keys or credentials") && !told.contains("never-seen"), "{told}");
        }
        let session = client.session_through(&server.body()).await;
        // A name that this machine can resolve as well, one that only the tunnel's name server can resolve, and an address that
        // this machine has as well.
        for host in ["site.test", "long.test", PUBLIC] {
            let before = far.hits();
            client.navigate(&session, &url(host, "/hit")).await;
            assert_eq!(far.hits(), before + 1, "{scheme} {host}");
        }
        for private in ["127.0.0.1".to_owned(), FAR.to_string()] {
            let asked = url(&private, "/hit");
            client.navigate(&session, &url("site.test", &format!("/fetch?url={asked}"))).await;
            assert_eq!(super::outcome(&client, &session).await, "refused", "{scheme} {asked}");
        }
        client.navigate(&session, "http://welcome.kitfleet.internal/").await;
        assert_eq!(watch.counts(), (0, 0), "{scheme}");

        // The tunnel's server is killed while a page sends requests.
        let page = requesting_page(&["site.test", "long.test", PUBLIC].map(|host| url(host, "/hit")));
        let shown = Url::parse_with_params(&url("site.test", "/written"), [("html", page)]).expect("an address");
        client.navigate(&session, shown.as_str()).await;
        until_count(&client, &session, "#reached", 3).await;
        server.kill();
        until_count(&client, &session, "#refused", 3).await;
        let began = Instant::now();
        let failed = client.operate(&session, "navigate", json!({"url": url("other.test", "/")})).await;
        let told = failed.problem(502, "driver-error").body["detail"].to_string();
        assert!(told.contains("the tunnel is dead"), "{scheme}: {told}");
        assert!(began.elapsed() < Duration::from_secs(3), "{scheme}: {:?}", began.elapsed());
        assert_failed(&app, &client, &session, "navigate", "DriverError").await;
        client.leave_through(&server.body()).await.problem(502, "driver-error");
        assert_eq!(app.count("select count(*) from sessions where live").await, 0, "{scheme}");
        assert_eq!((watch.counts(), near.hits()), ((0, 0), 0), "{scheme}");
    }

    let servers = [Server::start("wireguard").await, Server::start("openvpn").await];
    let before = network();
    for server in &servers {
        client.session_through(&server.body()).await;
    }
    assert_eq!(network(), before, "a tunnel added a device or a route");
    // A session without a tunnel shows that the site could be reached directly.
    let direct = client.session().await;
    client.navigate(&direct, &url("site.test", "/hit")).await;
    assert!(watch.counts().0 > 0 && near.hits() == 1);
    app.signal(0, Signal::SIGKILL).await;
    eventually(Duration::from_secs(10), "all processes have ended", async || app.marked().is_empty().then_some(()))
        .await;
    assert_eq!(network(), before);
    app.stop().await;
}

/// Adds to a create and to the first page of a session, compared with alternating sessions without a tunnel.
#[tokio::test]
#[ignore = "prints figures: ./ops/test tunnel_overhead --run-ignored only --success-output final"]
async fn tunnel_overhead() {
    in_network_namespace("egress::servers::tunnel_overhead_inside_network_namespace").await;
}

/// Waits for a warm browser, so that the measurement excludes its start.
async fn until_hot(app: &App) {
    let scraper = Client::new(&app.base_url, Some("scrape"));
    eventually(Duration::from_secs(10), "a warm browser", async || {
        let text = scraper.request(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        text.lines().any(|line| line == "service_browsers_hot 1").then_some(())
    })
    .await;
}

#[tokio::test]
#[ignore = "runs in a network namespace that another test starts"]
async fn tunnel_overhead_inside_network_namespace() {
    const ROUNDS: usize = 20;
    let _names = furnish(&[(PUBLIC, "site.test")]);
    run("mount -t tmpfs tmpfs /run; mkdir /run/wireguard");
    let near = Site::start().await;
    let address: SocketAddr = near.base_url.trim_start_matches("http://").parse().expect("an address");
    let _watch = Watch::start(address).await;
    let app = allowing_local_proxies(App::webkit()).set("sessions.allow_private_targets", "false");
    let app = app.set("worker.warm_pool", "1").set("metrics.scrape_token", "scrape").start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let url = format!("http://site.test:{}/", address.port());
    let median = |times: &mut [Duration]| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    for scheme in ["wireguard", "openvpn"] {
        let server = Server::start(scheme).await;
        let _far = Site::start_on(server.far().listen((Ipv4Addr::UNSPECIFIED, address.port()).into())).await;
        let saved = client.post("/v1/account/me/proxies", server.body()).await.expect(201).body;
        let routes = [json!({}), json!({"proxy_id": saved["id"]})];
        let mut taken: [[Vec<Duration>; 2]; 2] = Default::default();
        for _ in 0..ROUNDS {
            for (route, [creates, pages]) in routes.iter().zip(&mut taken) {
                until_hot(&app).await;
                let begun = Instant::now();
                let agent = client.post("/v1/agent-sessions", route.clone()).await.expect(201).body;
                creates.push(begun.elapsed());
                let begun = Instant::now();
                client.navigate(agent["session_id"].as_str().expect("an id"), &url).await;
                pages.push(begun.elapsed());
                client
                    .delete(&format!("/v1/agent-sessions/{}", agent["id"].as_str().expect("an id")))
                    .await
                    .expect(204);
            }
        }
        let [[direct, direct_page], [through, page]] =
            taken.each_mut().map(|route| route.each_mut().map(|times| median(times)));
        eprintln!(
            "{scheme}: create {through:?}, without tunnel {direct:?}; first page {page:?}, without tunnel {direct_page:?}"
        );
        assert!(through <= direct + Duration::from_millis(60) && page <= direct_page + Duration::from_millis(100));
    }
    app.stop().await;
}
