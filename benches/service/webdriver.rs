//! The same flow on bare `WebDriver`, as a customer could run it without this service.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::Result;

/// One driver per lane, because a shared one would mix up the lanes' browsers. Each session has a fresh browser.
pub struct Server {
    drivers: Vec<String>,
    http: reqwest::Client,
    processes: Vec<Child>,
}

/// Debian's package has it there.
const BROWSER: &str = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser";
/// Probably unused.
const DISPLAY: &str = ":7799";

impl Server {
    pub fn start(lanes: usize) -> Result<Self> {
        let screen = ["-screen", "0", "2048x4096x24", "-nolisten", "tcp", "-noreset"];
        let mut processes = vec![quietly(Command::new("Xvfb").arg(DISPLAY).args(screen))?];
        let mut drivers = Vec::new();
        for _ in 0..lanes {
            let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let mut driver = Command::new("WebKitWebDriver");
            processes.push(quietly(driver.arg(format!("--port={port}")).env("DISPLAY", DISPLAY))?);
            until_listening(port)?;
            drivers.push(format!("http://127.0.0.1:{port}"));
        }
        Ok(Self { drivers, http: reqwest::Client::builder().no_proxy().build()?, processes })
    }

    pub async fn flow(&self, lane: usize, url: &str) -> Result<()> {
        let driver = &self.drivers[lane];
        let options = json!({"binary": BROWSER, "args": ["--automation"]});
        let capabilities = json!({"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": options}}});
        let session = self.call(Method::POST, &format!("{driver}/session"), Some(capabilities)).await?;
        let session = format!("{driver}/session/{}", session["sessionId"].as_str().ok_or("no session")?);
        self.call(Method::POST, &format!("{session}/url"), Some(json!({"url": url}))).await?;
        let find = json!({"using": "css selector", "value": "#button"});
        let found = self.call(Method::POST, &format!("{session}/element"), Some(find)).await?;
        let element =
            found.as_object().and_then(|found| found.values().next()?.as_str()).ok_or("no element")?.to_owned();
        self.call(Method::POST, &format!("{session}/element/{element}/click"), Some(json!({}))).await?;
        self.call(Method::GET, &format!("{session}/url"), None).await?;
        self.call(Method::GET, &format!("{session}/title"), None).await?;
        self.call(Method::GET, &format!("{session}/cookie"), None).await?;
        let script = json!({"script": "return JSON.stringify(localStorage)", "args": []});
        self.call(Method::POST, &format!("{session}/execute/sync"), Some(script)).await?;
        self.call(Method::GET, &format!("{session}/screenshot"), None).await?;
        self.call(Method::DELETE, &session, None).await.map(drop)
    }

    async fn call(&self, method: Method, url: &str, body: Option<Value>) -> Result<Value> {
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let mut answer: Value = request.send().await?.error_for_status()?.json().await?;
        Ok(answer["value"].take())
    }
}

fn quietly(command: &mut Command) -> std::io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

fn until_listening(port: u16) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        if Instant::now() > deadline {
            return Err("WebKitWebDriver does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // The process may have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
