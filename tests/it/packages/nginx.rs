//! The nginx configuration in docs/deploying.md, with Debian's nginx.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{judge, read};
use crate::support::{App, eventually, live, live_socket};

/// Largest body that the service accepts without reading it into a profile.
const UPLOAD: usize = 2 * 1024 * 1024;

/// Killed on drop.
struct Nginx {
    process: Child,
    _folder: TempDir,
    plain: String,
    tls: String,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("an address").to_string()
}

impl Nginx {
    /// With the configuration from the guide, in front of the service.
    async fn before(app: &App) -> Self {
        let folder = TempDir::new().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let own = rcgen::generate_simple_self_signed(["fleet.example.com".to_owned()]).expect("a certificate");
        fs::write(path("fleet.pem"), own.cert.pem()).expect("a file");
        fs::write(path("fleet.key"), own.signing_key.serialize_pem()).expect("a file");
        let (plain, tls) = (free_address().await, free_address().await);
        let guide = read("docs/deploying.md");
        let (_, block) = guide.split_once("```nginx\n").expect("a block");
        let (block, _) = block.split_once("```").expect("the end of the block");
        let block = block
            .replace("listen 443 ssl;", &format!("listen {plain};\n  listen {tls} ssl;"))
            .replace("/etc/ssl/fleet.pem", &path("fleet.pem"))
            .replace("/etc/ssl/fleet.key", &path("fleet.key"))
            .replace("  server 127.0.0.1:8081;\n", "")
            .replace("127.0.0.1:8080", app.base_url.trim_start_matches("http://"));
        let bodies = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", path(kind)))
            .concat();
        let whole = format!(
            "daemon off;\nmaster_process off;\npid {};\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{bodies}{block}}}\n",
            path("pid")
        );
        fs::write(path("nginx.conf"), whole).expect("a file");
        let mut command = judge("nginx/usr/sbin/nginx");
        let process =
            command.arg("-c").arg(path("nginx.conf")).arg("-p").arg(folder.path()).stdin(Stdio::null()).spawn();
        let nginx = Self { process: process.expect("nginx"), _folder: folder, plain, tls };
        eventually(Duration::from_secs(10), "nginx listens", async || TcpStream::connect(&nginx.tls).await.ok()).await;
        nginx
    }
}

/// Contract: requests 1; notifications 4; live 2.
#[tokio::test]
async fn nginx_passes_uploads_streams_websockets_and_addresses() {
    let app = App::simulated().set("server.trusted_proxies", "127.0.0.1").start().await;
    let nginx = Nginx::before(&app).await;
    let mut client = app.client().await;
    client.base_url = format!("http://{}", nginx.plain);

    let trusting = reqwest::Client::builder().danger_accept_invalid_certs(true).build().expect("a client");
    let answer = trusting.get(format!("https://{}/healthz", nginx.tls)).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);

    let upload = client.request(Method::POST, "/v1/profiles/import").body(vec![b'x'; UPLOAD]).send().await;
    let upload = upload.expect("an answer");
    assert_ne!(upload.status(), 413, "nginx accepts the upload");
    assert_eq!(upload.headers()["content-type"], "application/problem+json");

    let follow = client.request(Method::GET, "/v1/account/notifications/stream").send().await;
    let mut stream = follow.expect("a stream");
    let session = client.session().await;
    let mut received = String::new();
    while !received.contains(&session) {
        let chunk = timeout(Duration::from_secs(5), stream.chunk()).await.expect("nginx does not buffer events");
        received += &String::from_utf8_lossy(&chunk.expect("a chunk").expect("the stream continues"));
    }

    let ticket = live::ticket(&client, &session, "viewer", None).await;
    let socket = TcpStream::connect(&nginx.plain).await.expect("a connection");
    live_socket::open(socket, &nginx.plain, &session, &ticket).await.expect("nginx passes the upgrade");

    let create = client.request(Method::POST, "/v1/sessions").header("x-forwarded-for", "203.0.113.7");
    client.send(create.json(&json!({}))).await.expect(201);
    let newest = client.get("/v1/account/audit-log?limit=1").await.expect(200).body["data"][0].clone();
    assert_eq!((&newest["action"], &newest["ip_address"]), (&json!("session.created"), &json!("203.0.113.7")));
    app.stop().await;
}
