//! An identity provider on loopback, and the browsers of users who sign in with it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use url::Url;

use super::app::{Builder, free_port};
use super::{Answer, App, Client, plain_http};

/// In the configuration.
pub const NAME: &str = "work";

pub struct IdentityProvider {
    port: u16,
    process: Option<Child>,
}

impl IdentityProvider {
    pub fn new() -> Self {
        Self { port: free_port(), process: None }
    }

    pub fn issuer(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn configure(&self, app: Builder) -> Builder {
        app.set(&format!("auth.providers.{NAME}.issuer"), &self.issuer())
            .set(&format!("auth.providers.{NAME}.client_id"), "kitfleet")
            .set(&format!("auth.providers.{NAME}.client_secret"), "kitfleet-secret")
            .set(&format!("auth.providers.{NAME}.display_name"), "Work")
    }

    /// The userinfo endpoint returns the claims of a user.
    pub fn start(&mut self, app: &App) {
        self.start_with(app, false, &Value::Null);
    }

    /// Users without a login hint sign in as this person.
    pub fn start_for(&mut self, app: &App, person: &Value) {
        self.start_with(app, false, person);
    }

    /// The ID token has the claims of a user.
    pub fn start_with_claims_in_token(&mut self, app: &App) {
        self.start_with(app, true, &Value::Null);
    }

    fn start_with(&mut self, app: &App, claims_in_id_token: bool, person: &Value) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc-provider");
        assert!(folder.join("node_modules").exists(), "./ops/test installs what the provider is made of");
        let options = json!({
            "port": self.port,
            "redirect_uri": format!("{}/v1/auth/oauth/{NAME}/callback", app.base_url),
            "claims_in_id_token": claims_in_id_token,
            "person": person,
        });
        let mut command = Command::new("node");
        command.current_dir(folder).arg("provider.js").arg(options.to_string());
        // The provider ends when its standard input is closed, also when this process is killed.
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("node runs");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert_eq!(line, "listening\n");
        self.process = Some(process);
    }

    /// Stops the provider, like an outage.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    fn has(&self, url: &str) -> bool {
        url.starts_with(&format!("{}/", self.issuer()))
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        self.stop();
    }
}

/// It keeps cookies. The test decides which pages it opens.
pub struct Browser {
    client: Client,
}

impl Browser {
    pub fn new(app: &App) -> Self {
        let http = plain_http().cookie_store(true).redirect(Policy::none()).build();
        Self { client: Client { base_url: app.base_url.clone(), key: None, http: http.expect("an HTTP client") } }
    }

    pub async fn open(&self, url: &str) -> Answer {
        self.client.send(self.client.http.get(url)).await
    }

    /// Returns the URL at the provider, with a login hint for a user with these claims.
    pub async fn leave(&self, claims: &Value) -> Url {
        let start = self.client.get(&format!("/v1/auth/oauth/{NAME}/start")).await.expect(303);
        let mut url: Url = location(&start).parse().expect("a URL");
        url.query_pairs_mut().append_pair("login_hint", &URL_SAFE_NO_PAD.encode(claims.to_string()));
        url
    }

    /// Returns the URL to which the provider sends the user at the end.
    pub async fn through(&self, provider: &IdentityProvider, from: Url) -> String {
        let mut url = from.to_string();
        for _ in 0..10 {
            if !provider.has(&url) {
                return url;
            }
            let page = self.open(&url).await;
            assert!(page.status.is_redirection(), "{url}: {} {}", page.status, page.body);
            let next = from.join(&location(&page)).expect("a URL");
            url = next.to_string();
        }
        panic!("the provider sends people in circles");
    }

    /// Returns the callback URL.
    pub async fn to_callback(&self, provider: &IdentityProvider, claims: &Value) -> String {
        let away = self.leave(claims).await;
        self.through(provider, away).await
    }

    /// Opens the callback URL.
    pub async fn sign_in(&self, provider: &IdentityProvider, claims: &Value) -> Answer {
        let callback = self.to_callback(provider, claims).await;
        self.open(&callback).await
    }
}

fn location(answer: &Answer) -> String {
    answer.headers["location"].to_str().expect("a text").to_owned()
}

/// The provider has verified the email address.
pub fn person(subject: &str, email: &str) -> Value {
    json!({"sub": subject, "email": email, "email_verified": true, "name": "Ada Lovelace"})
}
