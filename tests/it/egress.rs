//! Addresses that a browser may reach (design: the egress guard): the public internet and nothing else.
//!
//! Tests have no access to the public internet, so most of them run in a network namespace whose loopback device has a public
//! address. The service treats the other addresses of the machine as private.

mod leaving;
mod servers;

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::support::app::free_port;
use crate::support::live::ports;
use crate::support::namespaces::{OWN, PUBLIC, furnish, in_network_namespace};
use crate::support::{App, Client, Site, eventually};
use crate::webkit::processes::{listeners, namespace};
use crate::webkit::{Scene, assert_failed, text};

/// It accepts commands from any client that can connect to its port. Dropping this value ends it.
struct WebDriver {
    process: Child,
    port: u16,
}

impl WebDriver {
    async fn start() -> Self {
        let port = free_port();
        let mut command = Command::new("WebKitWebDriver");
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = Self { process: command.spawn().expect("WebKitWebDriver is installed"), port };
        // A page that could connect to this port could control the driver.
        let http = Client::new(&format!("http://127.0.0.1:{port}"), None);
        eventually(Duration::from_secs(10), "the driver responds", async || {
            http.request(reqwest::Method::GET, "/status").send().await.ok()?.status().is_success().then_some(())
        })
        .await;
        driver
    }
}

impl Drop for WebDriver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Contract: egress 1, 2. A private IP address is a 400 on `url`. With `sessions.allow_private_targets` the same addresses
/// load.
#[tokio::test]
async fn private_addresses_are_rejected_unless_allowed() {
    let site = Site::start().await;
    let literal = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "[::ffff:127.0.0.1]"];
    let named = ["localhost", "LOCALHOST"];

    let open = App::webkit().start().await;
    let client = open.client().await;
    let session = client.session().await;
    // WebKit itself blocks 0.0.0.0.
    for host in literal.iter().chain(&named).filter(|host| **host != "0.0.0.0") {
        let before = site.hits();
        let answer = client.operate(&session, "navigate", json!({"url": site.url_under(host, "/hit")})).await;
        assert_eq!(answer.status, 200, "{host}: {}", answer.body);
        assert_eq!(site.hits(), before + 1, "{host} does not lead to the site");
    }
    open.stop().await;

    let before = site.hits();
    let closed = App::webkit().set("sessions.allow_private_targets", "false").start().await;
    let client = closed.client().await;
    let session = client.session().await;
    let others = ["http://169.254.169.254/latest/meta-data/", "http://[::1]/", "http://10.0.0.1/", "http://[fd00::1]/"];
    let literal = literal.iter().map(|host| site.url_under(host, "/hit")).chain(others.map(ToOwned::to_owned));
    for url in literal.chain(["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x"].map(ToOwned::to_owned)) {
        client.operate(&session, "navigate", json!({"url": url})).await.invalid("url");
    }
    assert_eq!(client.status(&session).await, "ready");

    let driver = WebDriver::start().await;
    let driver_url = format!("http://localhost:{}/status", driver.port);
    for url in named.iter().map(|host| site.url_under(host, "/hit")).chain([driver_url]) {
        let session = client.session().await;
        client.operate(&session, "navigate", json!({"url": url})).await.problem(502, "driver-error");
        assert_failed(&closed, &client, &session, "navigate", "DriverError").await;
    }
    assert_eq!(site.hits(), before, "a request reached the site");
    closed.stop().await;
}

/// Contract: egress 4. It listens only on the ports of its API and its live view, on loopback. In a browser's network namespace
/// only the keeper listens.
#[tokio::test]
async fn service_opens_no_port_that_a_page_could_reach() {
    let scene = Scene::start().await;
    scene.client.session().await;
    scene.visit("/").await;
    let service = scene.app.pid(0);
    let listening: HashSet<_> = listeners(&scene.app, service).into_iter().map(|listener| listener.address).collect();
    assert_eq!(listening, ports(&scene.app).await);
    let hosts = scene.app.processes("kitfleet-host");
    assert!(hosts.len() >= 2, "{hosts:?}");
    let networks: HashSet<_> = hosts.iter().chain([&service]).map(|pid| namespace(*pid, "net")).collect();
    assert_eq!(networks.len(), hosts.len() + 1, "some browsers share a network namespace: {networks:?}");
    for host in hosts {
        let listening = listeners(&scene.app, host);
        assert!(listening.iter().all(|listener| listener.program == "kitfleet-keeper"), "{listening:?}");
        assert!(listening.iter().all(|listener| listener.address.ip().is_loopback()), "{listening:?}");
    }

    // Here the page may reach the loopback device of the machine, but the guard's port is on another.
    let reach = async |url: String| {
        scene.visit(&format!("/fetch?url={url}")).await;
        scene.wait(json!({"kind": "url_matches", "pattern": "/fetch"})).await.expect(200);
        outcome(&scene.client, &scene.session).await
    };
    assert_eq!(reach(scene.site.url("/hit")).await, "reached");
    assert_eq!(reach("http://127.0.0.1:1080/".to_owned()).await, "refused");
    scene.app.stop().await;
}

async fn outcome(client: &Client, session: &str) -> String {
    eventually(Duration::from_secs(10), "an outcome", async || {
        let outcome = text(client, session, "#outcome").await;
        outcome.as_str().filter(|outcome| !outcome.is_empty()).map(ToOwned::to_owned)
    })
    .await
}

/// Contract: egress 3, 4. It tries a redirect, a public name that resolves to one, its own requests, and the port of an idle
/// WebDriver.
#[tokio::test]
async fn public_page_cannot_reach_private_addresses() {
    in_network_namespace("egress::public_page_inside_network_namespace").await;
}

#[tokio::test]
#[ignore = "runs in a network namespace that another test starts"]
async fn public_page_inside_network_namespace() {
    let _names = furnish(&[
        ("127.0.0.1", "rebound.example"),
        (PUBLIC, "public.example"),
        (PUBLIC, "mixed.example"),
        ("127.0.0.1", "mixed.example"),
        ("10.11.12.13", "intranet.example"),
        ("169.254.169.254", "metadata.example"),
        (OWN[0], "own.example"),
        (OWN[1], "neighbour.example"),
    ]);
    let private = Site::start_at(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).await;
    let public = Site::start_at(SocketAddr::from((PUBLIC.parse::<Ipv4Addr>().expect("an address"), 0))).await;
    let driver = WebDriver::start().await;
    let app = App::webkit().set("sessions.allow_private_targets", "false").start().await;
    let client = app.client().await;
    let session = client.session().await;

    client.navigate(&session, &public.url("/")).await;
    client.navigate(&session, &public.url_under("public.example", "/")).await;
    assert_eq!(text(&client, &session, "#title").await, "Home");

    let hosts = [
        "127.0.0.1",
        "localhost",
        "rebound.example",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "10.11.12.13",
        "intranet.example",
        "192.168.1.1",
        "169.254.169.254",
        "metadata.example",
        "100.64.0.1",
        OWN[0],
        OWN[1],
        "own.example",
        "neighbour.example",
    ];
    let fetch = async |url: &str| {
        client.navigate(&session, &public.url(&format!("/fetch?url={url}"))).await;
        outcome(&client, &session).await
    };
    let embed = async |url: &str| {
        let body = json!({"url": public.url(&format!("/embed?url={url}")), "wait_until": "networkidle"});
        client.operate(&session, "navigate", body).await.expect(200);
    };
    assert_eq!(fetch(&public.url("/hit")).await, "reached");
    assert_eq!(fetch(&public.url_under("public.example", "/hit")).await, "reached");
    assert_eq!(public.hits(), 2);
    embed(&public.url("/hit")).await;
    assert!(public.hits() > 6, "some ways to load the address did not work: {}", public.hits());

    for host in hosts {
        let (url, before) = (private.url_under(host, "/hit"), private.hits());
        reqwest::get(&url).await.expect("a response").error_for_status().expect("a success status");
        assert_eq!(private.hits(), before + 1, "{host} does not lead to the site");
        assert_eq!(fetch(&url).await, "refused", "{host}");
        embed(&url).await;
        assert_eq!(private.hits(), before + 1, "{host} was reached");
    }
    // Of a name with a public and a private address, only the public one is used.
    let local = Site::start().await;
    assert_eq!(fetch(&public.url_under("mixed.example", "/hit")).await, "reached");
    assert_eq!(fetch(&local.url_under("mixed.example", "/hit")).await, "refused");
    assert_eq!(local.hits(), 0);
    let before = private.hits();

    for target in [
        public.url(&format!("/redirect?to={}", private.url_under("127.0.0.1", "/hit"))),
        public.url(&format!("/redirect?to={}", private.url_under("169.254.169.254", "/hit"))),
        private.url_under("rebound.example", "/hit"),
        private.url_under("intranet.example", "/hit"),
    ] {
        let session = client.session().await;
        client.operate(&session, "navigate", json!({"url": target})).await.problem(502, "driver-error");
        assert_failed(&app, &client, &session, "navigate", "DriverError").await;
    }
    assert_eq!(private.hits(), before);

    // The WebDriver's port and the ports of the service.
    for port in listeners(&app, app.pid(0)).iter().map(|listener| listener.address.port()).chain([driver.port]) {
        for host in ["127.0.0.1", "localhost"] {
            assert_eq!(fetch(&format!("http://{host}:{port}/session")).await, "refused", "{host}:{port}");
        }
    }
    app.stop().await;
}
