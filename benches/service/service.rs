//! The real binary, its embedded database, and any number of workers.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Method;
use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use tempfile::TempDir;

use crate::Result;

pub struct Service {
    pub base_urls: Vec<String>,
    processes: Vec<(&'static str, Child)>,
    settings: Vec<(String, String)>,
    folder: TempDir,
    started: usize,
}

impl Service {
    /// With `workers - 1` additional workers.
    pub async fn start(settings: &[(&str, &str)], workers: usize) -> Result<Self> {
        let mut service = Self::new(settings)?;
        service.serve("up")?;
        service.until_ready(1).await?;
        for _ in 1..workers {
            service.spawn("worker", &[])?;
        }
        service.until_ready(workers).await?;
        Ok(service)
    }

    pub async fn of_roles(settings: &[(&str, &str)], apis: usize, workers: usize) -> Result<Self> {
        let mut service = Self::new(settings)?;
        service.run(&["migrate"])?;
        for _ in 0..apis {
            service.serve("api")?;
        }
        for _ in 0..workers {
            service.spawn("worker", &[])?;
        }
        service.until_ready(workers).await?;
        Ok(service)
    }

    pub async fn add_workers(&mut self, more: usize) -> Result<()> {
        let workers = self.live_workers()? + more;
        for _ in 0..more {
            self.spawn("worker", &[])?;
        }
        self.until_ready(workers).await
    }

    pub fn kill_first_worker(&mut self) -> Result<()> {
        let first = self.processes.iter().position(|(role, _)| *role == "worker").ok_or("no worker")?;
        let (_, mut process) = self.processes.remove(first);
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    fn new(settings: &[(&str, &str)]) -> Result<Self> {
        let folder = TempDir::new()?;
        let mut settings: Vec<_> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        settings.push(("DATA_DIR".to_owned(), folder.path().join("data").display().to_string()));
        // The bench leaves sessions behind, so draining must not wait for them.
        settings.push(("WORKER__DRAIN_TIMEOUT".to_owned(), "0s".to_owned()));
        settings.push(("LOG__FILTER".to_owned(), "warn".to_owned()));
        Ok(Self { base_urls: Vec::new(), processes: Vec::new(), settings, folder, started: 0 })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kitfleet"));
        command.args(args).current_dir(self.folder.path());
        for (key, value) in &self.settings {
            command.env(format!("KITFLEET_{key}"), value);
        }
        command
    }

    fn serve(&mut self, role: &'static str) -> Result<()> {
        let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        self.base_urls.push(format!("http://{address}"));
        self.spawn(role, &[("KITFLEET_SERVER__LISTEN", &address)])
    }

    fn spawn(&mut self, role: &'static str, variables: &[(&str, &str)]) -> Result<()> {
        let log = std::fs::File::create(self.folder.path().join(format!("{}.log", self.processes.len())))?;
        let mut command = self.command(&[role]);
        if role == "worker" {
            // Each worker has its own folder and therefore cannot find the embedded database there.
            command.env("KITFLEET_DATA_DIR", self.folder.path().join(format!("worker-{}", self.started)));
            if self.settings.iter().all(|(key, _)| key != "DATABASE__URL") {
                let embedded = self.data_dir().join("postgres");
                let url = format!("postgres://kitfleet@localhost:5432/kitfleet?host={}", embedded.display());
                command.env("KITFLEET_DATABASE__URL", url);
            }
        }
        self.started += 1;
        command.envs(variables.iter().copied());
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        self.processes.push((role, child));
        Ok(())
    }

    async fn until_ready(&mut self, workers: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let mut ready = true;
            for base_url in &self.base_urls {
                ready &= reqwest::get(format!("{base_url}/readyz")).await.is_ok_and(|r| r.status().is_success());
            }
            if ready && self.live_workers()? >= workers {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("the service is not ready in time".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn live_workers(&self) -> Result<usize> {
        let listed: Value = serde_json::from_str(&self.run(&["workers", "list", "--json"])?)?;
        Ok(listed.as_array().map_or(0, Vec::len))
    }

    fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).stderr(Stdio::inherit()).stdin(Stdio::null()).output()?;
        if output.status.success() {
            Ok(String::from_utf8(output.stdout)?)
        } else {
            Err(format!("{args:?} failed").into())
        }
    }

    /// With 32 slots.
    pub fn client(&self, name: &str) -> Result<Client> {
        let email = format!("{name}@example.com");
        let account =
            self.run(&["account", "create", "--email", &email, "--name", name, "--tier", "enterprise", "--verified"])?;
        let account =
            account.split_whitespace().find(|word| word.starts_with("acc_")).ok_or("no account id")?.to_owned();
        let minted = self.run(&["key", "mint", &account, "--name", name, "--scopes", "account_owner"])?;
        let key = minted.split_whitespace().find(|word| word.starts_with("svc_")).ok_or("no key")?.to_owned();
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Client { base_url: self.base_urls[0].clone(), account, key, http })
    }

    /// With a credential of staff.
    pub fn staff(&self) -> Result<Client> {
        let minted = self.run(&["key", "mint", "--staff", "--name", "bench"])?;
        let key = minted.split_whitespace().find(|word| word.starts_with("svc_staff_")).ok_or("no key")?.to_owned();
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Client { base_url: self.base_urls[0].clone(), account: String::new(), key, http })
    }

    /// Verified. Returns the email address.
    pub fn account_with_password(&self, email: &str, password: &str) -> Result<String> {
        let args = ["account", "create", "--email", email, "--name", "Ada", "--verified", "--password-stdin"];
        let mut child = self.command(&args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        writeln!(child.stdin.take().ok_or("no pipe")?, "{password}")?;
        if child.wait()?.success() { Ok(email.to_owned()) } else { Err("account create failed".into()) }
    }

    pub async fn database(&self) -> Result<PgConnection> {
        let folder = self.data_dir().join("postgres");
        let options = PgConnectOptions::new().socket(folder).port(5432).username("kitfleet").database("kitfleet");
        Ok(options.connect().await?)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(|(_, process)| process.id()).collect()
    }

    pub fn pids_of(&self, role: &str) -> Vec<i32> {
        let of_role = self.processes.iter().filter(|(of, _)| *of == role);
        of_role.filter_map(|(_, process)| process.id().try_into().ok()).collect()
    }
}

/// A bench that fails midway leaves no process running.
impl Drop for Service {
    fn drop(&mut self) {
        for (_, child) in self.processes.iter_mut().rev() {
            if let Ok(pid) = i32::try_from(child.id()) {
                // The process may have ended.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let _ = child.wait();
        }
    }
}

#[derive(Clone)]
pub struct Client {
    pub base_url: String,
    pub account: String,
    pub key: String,
    http: reqwest::Client,
}

/// With the time of the request.
pub struct Answer {
    pub body: Value,
    pub total: Duration,
    /// Reported in `Server-Timing`.
    pub browser: Duration,
}

pub struct Download {
    pub first_byte: Duration,
    pub total: Duration,
    pub bytes: usize,
}

impl Answer {
    pub fn overhead(&self) -> Duration {
        self.total.saturating_sub(self.browser)
    }
}

impl Client {
    /// For another API process.
    pub fn at(&self, base_url: &str) -> Self {
        Self { base_url: base_url.to_owned(), ..self.clone() }
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answer> {
        let mut request = self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let sent = Instant::now();
        let response = request.send().await?;
        let (status, browser) = (response.status(), browser_time(&response));
        let bytes = response.bytes().await?;
        let total = sent.elapsed();
        if !status.is_success() {
            return Err(format!("{path}: {status} {}", String::from_utf8_lossy(&bytes)).into());
        }
        Ok(Answer { body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), total, browser })
    }

    pub async fn create(&self) -> Result<String> {
        self.make("/v1/sessions", serde_json::json!({})).await
    }

    pub async fn create_with(&self, body: Value) -> Result<String> {
        self.make("/v1/sessions", body).await
    }

    pub async fn launch(&self, profile: &str) -> Result<String> {
        self.make("/v1/sessions", serde_json::json!({"profile_id": profile})).await
    }

    /// Returns its id and the id of its driver session.
    pub async fn agent(&self) -> Result<(String, String)> {
        self.agent_of(serde_json::json!({})).await
    }

    pub async fn agent_through(&self, proxy: &str) -> Result<(String, String)> {
        self.agent_of(serde_json::json!({"proxy_id": proxy})).await
    }

    async fn agent_of(&self, body: Value) -> Result<(String, String)> {
        let made = self.call(Method::POST, "/v1/agent-sessions", Some(body)).await?;
        let id = |of: &str| made.body[of].as_str().map(ToOwned::to_owned).ok_or("an answer without an id");
        Ok((id("id")?, id("session_id")?))
    }

    pub async fn send_message(&self, agent: &str, message: &str) -> Result<Answer> {
        let body = serde_json::json!({"message": message});
        self.call(Method::POST, &format!("/v1/agent-sessions/{agent}/message"), Some(body)).await
    }

    pub async fn profile(&self) -> Result<String> {
        self.make("/v1/profiles", serde_json::json!({"name": "Bench"})).await
    }

    pub async fn live_ticket(&self, session: &str, role: &str) -> Result<String> {
        let path = format!("/v1/sessions/{session}/live-tickets");
        let answer = self.call(Method::POST, &path, Some(serde_json::json!({"role": role}))).await?;
        Ok(answer.body["ticket"].as_str().ok_or("an answer without a ticket")?.to_owned())
    }

    pub async fn follow(&self) -> Result<reqwest::Response> {
        let request = self.http.get(format!("{}/v1/account/notifications/stream", self.base_url));
        Ok(request.bearer_auth(&self.key).send().await?.error_for_status()?)
    }

    pub async fn proxy(&self, proxy: Value) -> Result<String> {
        self.make("/v1/account/me/proxies", proxy).await
    }

    /// Returns the id in the response.
    async fn make(&self, path: &str, body: Value) -> Result<String> {
        let answer = self.call(Method::POST, path, Some(body)).await?;
        Ok(answer.body["id"].as_str().ok_or("an answer without an id")?.to_owned())
    }

    pub async fn listen(&self, url: &str, event: &str) -> Result<()> {
        let body = serde_json::json!({"url": url, "events": [event]});
        self.call(Method::POST, "/v1/webhooks", Some(body)).await.map(drop)
    }

    pub async fn operate(&self, session: &str, operation: &str, body: Value) -> Result<Answer> {
        self.call(Method::POST, &format!("/v1/sessions/{session}/{operation}"), Some(body)).await
    }

    pub async fn state(&self, session: &str) -> Result<Answer> {
        self.call(Method::GET, &format!("/v1/sessions/{session}/state"), None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Result<Answer> {
        self.call(Method::POST, path, Some(body)).await
    }

    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.call(Method::GET, path, None).await
    }

    pub async fn download(&self, path: &str) -> Result<Download> {
        let request = self.http.get(format!("{}{path}", self.base_url)).bearer_auth(&self.key);
        let sent = Instant::now();
        let mut response = request.send().await?.error_for_status()?;
        let mut download = Download { first_byte: Duration::ZERO, total: Duration::ZERO, bytes: 0 };
        while let Some(chunk) = response.chunk().await? {
            if download.bytes == 0 {
                download.first_byte = sent.elapsed();
            }
            download.bytes += chunk.len();
        }
        download.total = sent.elapsed();
        Ok(download)
    }

    pub async fn read(&self, path: &str) -> Result<Duration> {
        Ok(self.get(path).await?.total)
    }

    pub async fn log_in(&self, email: &str, password: &str) -> Result<Duration> {
        let body = serde_json::json!({"email": email, "password": password});
        Ok(self.call(Method::POST, "/v1/auth/login", Some(body)).await?.total)
    }

    pub async fn signed_in(&self, email: &str, password: &str) -> Result<Self> {
        let body = serde_json::json!({"email": email, "password": password});
        let answer = self.call(Method::POST, "/v1/auth/login", Some(body)).await?;
        let token = answer.body["session"]["token"].as_str().ok_or("a login without a session")?;
        Ok(Self { key: token.to_owned(), ..self.clone() })
    }

    pub async fn miss(&self, path: &str) -> Result<Duration> {
        let request = self.http.get(format!("{}{path}", self.base_url)).bearer_auth(&self.key);
        let sent = Instant::now();
        let response = request.send().await?;
        let status = response.status();
        response.bytes().await?;
        let total = sent.elapsed();
        if status == 404 { Ok(total) } else { Err(format!("{path}: {status}").into()) }
    }

    pub async fn delete(&self, session: &str) -> Result<Duration> {
        let answer = self.call(Method::DELETE, &format!("/v1/sessions/{session}"), None).await?;
        Ok(answer.total)
    }
}

fn browser_time(response: &reqwest::Response) -> Duration {
    let timing = response.headers().get("server-timing").and_then(|value| value.to_str().ok());
    let milliseconds = timing.and_then(|timing| timing.strip_prefix("browser;dur=")?.parse::<f64>().ok());
    Duration::from_secs_f64(milliseconds.unwrap_or(0.0) / 1e3)
}
