//! Sessions that leave through tunnels, whose servers are Debian's (contract: egress 11 to 16).
//!
//! What a tunnel leads to is in another network than the worker, so that whatever arrives there came through it.

#[allow(dead_code, reason = "the tunnels' own tests ask more of their servers")]
#[path = "../../../egress/tunnels/tests/servers/support/mod.rs"]
mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use kitfleet_domain::accounts::Tier;
use nix::sys::signal::Signal;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use self::support::openvpn::Guard;
use self::support::{FAR, Far, openvpn, run, wireguard};
use super::leaving::{Watch, bringing};
use crate::support::namespaces::{PUBLIC, furnish, in_a_network_of_its_own};
use crate::support::{App, Client, Site, eventually};
use crate::webkit::{assert_failed, text};

/// A running server of one of the schemes.
enum Server {
    WireGuard(Box<wireguard::Server>),
    OpenVpn(Box<openvpn::Server>),
}

impl Server {
    /// One that leads to the public address as well.
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

    /// As a customer saves it.
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

/// What this network has: its devices and its routes.
fn network() -> String {
    let asked = "ip -o link; ip route show table all; ip -6 route show table all";
    let output = std::process::Command::new("sh").args(["-c", asked]).output().expect("sh runs");
    String::from_utf8(output.stdout).expect("text")
}

/// A page that asks for these addresses again and again, and says how often something came and how often nothing did.
fn asking(urls: &[String]) -> String {
    let urls = json!(urls);
    format!(
        "<p id=reached>0</p><p id=refused>0</p><script>
         const count = id => () => {{ const at = document.querySelector(id); at.textContent = Number(at.textContent) + 1 }};
         const ask = url => fetch(url, {{mode: 'no-cors', cache: 'no-store'}}).then(count('#reached'), count('#refused'))
             .then(() => setTimeout(ask, 100, url));
         {urls}.forEach(ask)</script>"
    )
}

/// Waits until a page has counted so many.
async fn counted(client: &Client, session: &str, selector: &str, least: u32) {
    eventually(Duration::from_secs(20), selector, async || {
        let count = text(client, session, selector).await;
        count.as_str()?.parse::<u32>().ok().filter(|count| *count >= least)
    })
    .await;
}

/// Contract: egress 11, 12, 14, 15. Pages come through the tunnel alone; when its server is killed nothing comes any more, although the
/// site can be reached directly, and no name is asked here. Of a worker that is killed nothing is left.
#[tokio::test]
async fn webkit_leaves_through_its_tunnel_or_not_at_all() {
    in_a_network_of_its_own("egress::servers::inside_a_network_of_its_own").await;
}

/// See [`webkit_leaves_through_its_tunnel_or_not_at_all`], which starts it.
#[tokio::test]
#[ignore = "runs in a network of its own, where another test starts it"]
async fn inside_a_network_of_its_own() {
    let _names = furnish(&[(PUBLIC, "site.test")]);
    run("mount -t tmpfs tmpfs /run; mkdir /run/wireguard");
    let near = Site::start().await;
    let address: SocketAddr = near.base_url.trim_start_matches("http://").parse().expect("an address");
    let watch = Watch::start(address).await;
    let mut app = bringing(App::webkit()).set("sessions.allow_private_targets", "false").start().await;
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
        // A name that this machine knows too, one that only the tunnel's name server knows, and an address that this machine has too.
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

        // A page goes on asking, and its tunnel dies.
        let page = asking(&["site.test", "long.test", PUBLIC].map(|host| url(host, "/hit")));
        let shown = Url::parse_with_params(&url("site.test", "/written"), [("html", page)]).expect("an address");
        client.navigate(&session, shown.as_str()).await;
        counted(&client, &session, "#reached", 3).await;
        server.kill();
        counted(&client, &session, "#refused", 3).await;
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
    assert_eq!(network(), before, "neither device nor route");
    // The site could have been reached: a session without a tunnel does.
    let direct = client.session().await;
    client.navigate(&direct, &url("site.test", "/hit")).await;
    assert!(watch.counts().0 > 0 && near.hits() == 1);
    app.signal(0, Signal::SIGKILL).await;
    eventually(Duration::from_secs(10), "no process is left", async || app.marked().is_empty().then_some(())).await;
    assert_eq!(network(), before);
    app.stop().await;
}

/// What a tunnel adds to a create and to a session's first page, by turns with sessions that leave directly.
#[tokio::test]
#[ignore = "prints figures: ./ops/test what_tunnels_add --run-ignored only --success-output final"]
async fn what_tunnels_add() {
    in_a_network_of_its_own("egress::servers::measured_inside").await;
}

/// Waits until a browser is hot again: what is measured does not wait for one to start.
async fn until_hot(app: &App) {
    let scraper = Client::new(&app.base_url, Some("scrape"));
    eventually(Duration::from_secs(10), "a hot browser", async || {
        let text = scraper.request(Method::GET, "/metrics").send().await.ok()?.text().await.ok()?;
        text.lines().any(|line| line == "service_browsers_hot 1").then_some(())
    })
    .await;
}

/// See [`what_tunnels_add`], which starts it.
#[tokio::test]
#[ignore = "runs in a network of its own, where another test starts it"]
async fn measured_inside() {
    const ROUNDS: usize = 20;
    let _names = furnish(&[(PUBLIC, "site.test")]);
    run("mount -t tmpfs tmpfs /run; mkdir /run/wireguard");
    let near = Site::start().await;
    let address: SocketAddr = near.base_url.trim_start_matches("http://").parse().expect("an address");
    let _watch = Watch::start(address).await;
    let app = bringing(App::webkit()).set("sessions.allow_private_targets", "false");
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
        let ways = [json!({}), json!({"proxy_id": saved["id"]})];
        let mut taken: [[Vec<Duration>; 2]; 2] = Default::default();
        for _ in 0..ROUNDS {
            for (way, [creates, pages]) in ways.iter().zip(&mut taken) {
                until_hot(&app).await;
                let begun = Instant::now();
                let agent = client.post("/v1/agent-sessions", way.clone()).await.expect(201).body;
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
            taken.each_mut().map(|way| way.each_mut().map(|times| median(times)));
        eprintln!("{scheme}: create {through:?}, directly {direct:?}; first page {page:?}, directly {direct_page:?}");
        assert!(through <= direct + Duration::from_millis(60) && page <= direct_page + Duration::from_millis(100));
    }
    app.stop().await;
}
