//! Recipes exported as programs, which the tests run as users would (contract: recipes 13 to 16).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use kitfleet_types::tiers::Tier;
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{SECRET, StepRow, css, done, words};
use crate::support::commands::{CommandOutput, run};
use crate::support::{App, Client, Site};

/// Its name in a request, its file, and the commands that run and check it.
struct Language {
    name: &'static str,
    file: &'static str,
    content_type: &'static str,
    run: &'static [&'static str],
    check: &'static [&'static str],
}

const LANGUAGES: [Language; 3] = [
    Language {
        name: "curl",
        file: "recipe.sh",
        content_type: "text/x-shellscript; charset=utf-8",
        run: &["bash"],
        check: &["bash", "-n"],
    },
    Language {
        name: "python",
        file: "recipe.py",
        content_type: "text/x-python; charset=utf-8",
        // Isolated from the packages of the system and from other files of the folder.
        run: &["python3", "-I", "-S", "-B"],
        check: &["python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1], 'rb').read())"],
    },
    Language {
        name: "typescript",
        file: "recipe.mts",
        content_type: "text/x-typescript; charset=utf-8",
        run: &["node"],
        check: &["node"],
    },
];

struct Program {
    text: String,
    language: &'static Language,
    folder: TempDir,
}

impl Program {
    async fn of(client: &Client, recipe: &str, language: &'static Language) -> Self {
        let path = format!("/v1/recipes/{recipe}?format={}", language.name);
        let answer = client.request(Method::GET, &path).send().await.expect("a response");
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], language.content_type);
        let disposition = format!("attachment; filename={}", language.file);
        assert_eq!(answer.headers()["content-disposition"], disposition.as_str());
        let text = answer.text().await.expect("a text");
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join(language.file), &text).expect("a file");
        // Some versions of Node cannot run TypeScript files. The program has no type annotations, so that it runs as JavaScript.
        fs::write(folder.path().join("recipe.mjs"), &text).expect("a file");
        Self { text, language, folder }
    }

    /// Environment variables for the typed text, in the order of their steps.
    fn variables(&self) -> Vec<String> {
        let line = Regex::new(r"(?m)^(?:#|//)     (RECIPE_[A-Z0-9_]+): ").expect("an expression");
        line.captures_iter(&self.text).map(|found| found[1].to_owned()).collect()
    }

    fn command(&self, words: &[&str], file: &str) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(file).current_dir(self.folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").expect("a path")).env("LANG", "C.UTF-8");
        command
    }

    async fn run(&self, url: &str, key: &str, typed: &[&str]) -> CommandOutput {
        let runs = if self.language.name == "typescript" { "recipe.mjs" } else { self.language.file };
        let mut command = self.command(self.language.run, runs);
        command.env("KITFLEET_URL", url).env("KITFLEET_API_KEY", key);
        let variables = self.variables();
        assert_eq!(variables.len(), typed.len(), "{variables:?}");
        command.envs(variables.into_iter().zip(typed));
        run(command, "").await
    }

    /// For TypeScript also the types.
    async fn check(&self) {
        if self.language.name == "typescript" {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verifiers/node_modules");
            let compiler = folder.join("typescript/bin/tsc");
            assert!(compiler.exists(), "./ops/test installs the compiler");
            let mut command = self.command(&["node", &compiler.display().to_string()], self.language.file);
            let types = folder.join("@types");
            command.args(["--noEmit", "--strict", "--noUncheckedIndexedAccess", "--erasableSyntaxOnly"]);
            command.args(["--target", "es2022", "--module", "nodenext", "--types", "node", "--typeRoots"]).arg(types);
            run(command, "").await.code(0);
        } else {
            run(self.command(self.language.check, self.language.file), "").await.code(0);
        }
    }

    fn made(&self) -> Vec<String> {
        let files = fs::read_dir(self.folder.path()).expect("a folder").map(|file| file.expect("a file").file_name());
        let mut made: Vec<_> = files.map(|name| name.to_string_lossy().into_owned()).collect();
        made.retain(|name| !name.starts_with("recipe."));
        made.sort();
        made
    }
}

/// They try to run commands from within a program.
const HOSTILE: [&str; 16] = [
    "'; touch hacked; '",
    "\"; import os; os.system('touch hacked') #",
    "$(touch hacked)`touch hacked`${HOME}",
    "*/ require('fs').writeFileSync('hacked', ''); /*",
    "\"\"\"\nopen('hacked', 'w')\n\"\"\"",
    "\\",
    "\\\"\\'\\\\",
    "line\ntouch hacked\r\ntouch hacked\u{2028}touch hacked\u{2029}touch hacked\u{85}touch hacked",
    "\n'\ntouch hacked\n'",
    "coding: utf-7 +AG8AcwA-",
    "!! & && | > hacked < %s %n \\x27 \\u0027 {0} ${0}",
    "🦀 Zoë 鍵 ß \u{202e}desrever\u{feff}\u{fffd}",
    "__proto__",
    "`${process.exit(3)}`",
    "\u{1}\u{8}\u{b}\u{c}\u{1b}[2J\u{1f}\u{7f}",
    " leading and trailing \t",
];

/// Requests that programs sent to a server which accepts everything.
#[derive(Default)]
struct ReceivedRequests(Mutex<Vec<(String, String, Value)>>);

async fn record_request(State(received): State<Arc<ReceivedRequests>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    assert_eq!(parts.headers["authorization"], "Bearer key");
    let bytes = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    received.0.lock().expect("no panic").push((parts.method.to_string(), parts.uri.path().to_owned(), body));
    match (parts.method, parts.uri.path()) {
        (Method::DELETE, _) => axum::http::StatusCode::NO_CONTENT.into_response(),
        (_, "/v1/sessions") => axum::Json(json!({"id": SESSION, "label": "\"id\":\"ses_0\""})).into_response(),
        _ => axum::Json(json!({"content": "aGk=", "value": {"a": 1}})).into_response(),
    }
}

const SESSION: &str = "ses_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5";

/// Contract: recipes 14 to 16. This holds in every language.
#[tokio::test]
async fn hostile_text_is_sent_unchanged_and_never_executed() {
    let received = Arc::<ReceivedRequests>::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let router = Router::new().fallback(record_request).with_state(Arc::clone(&received));
    let mut servers = JoinSet::new();
    servers.spawn(async move { axum::serve(listener, router).await.expect("it runs") });

    let app = App::with_recipes().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let mut expected = Vec::new();
    for text in HOSTILE {
        let found = [(text, text)];
        let steps = [
            done(json!({"Navigate": {"url": text}}), &[]),
            done(json!({"Tap": {"target": words(text)}}), &found),
            done(json!({"Type": {"target": words(text), "value": "never shown"}}), &found),
            done(json!({"Press": {"key": text}}), &[]),
            done(json!({"Select": {"target": css(text), "option": text}}), &[]),
            done(json!({"Scroll": {"delta_x": -1, "delta_y": 600, "target": css(text)}}), &[]),
            done(json!({"Wait": {"condition": {"Url": text}}}), &[]),
            done(
                json!({"Extract": {"items": [{"name": text, "target": css(text), "attribute": text, "list": false}]}}),
                &[],
            ),
        ];
        app.turn(&agent, "plan", &steps).await;
        expected.extend([
            ("navigate", json!({"url": text})),
            ("interact", json!({"action": {"kind": "tap", "selector": text}})),
            ("interact", json!({"action": {"kind": "type", "selector": text, "text": text}})),
            ("interact", json!({"action": {"kind": "press", "key": text}})),
            ("interact", json!({"action": {"kind": "select", "selector": text, "option": text}})),
            ("interact", json!({"action": {"kind": "scroll", "selector": text, "delta_x": -1, "delta_y": 600}})),
            ("wait", json!({"condition": {"kind": "url_matches", "pattern": text}})),
            (
                "extract",
                json!({"extractions": [{"name": text, "selector": text, "type": "attribute", "attribute": text}]}),
            ),
        ]);
    }
    app.turn(&agent, "plan", &[done(json!({"Capture": {"capture": "screenshot"}}), &[])]).await;
    expected.push(("capture", json!({"kind": "screenshot"})));
    let label = "coding: utf-7\n'; touch hacked; */ \"\"\"\u{2028}touch hacked";
    let recipe = client.recipe(&agent, label).await.expect(201).body["id"].as_str().expect("an id").to_owned();

    for language in &LANGUAGES {
        let program = Program::of(&client, &recipe, language).await;
        assert!(!program.text.contains("never shown"));
        program.check().await;
        let ran = program.run(&url, "key", &HOSTILE).await.code(0);
        let mut said = std::mem::take(&mut *received.0.lock().expect("no panic"));
        let operations = format!("/v1/sessions/{SESSION}");
        assert_eq!(said.remove(0), ("POST".to_owned(), "/v1/sessions".to_owned(), json!({})));
        let (method, path, _) = said.pop().expect("an end");
        assert_eq!((method.as_str(), path), ("DELETE", operations.clone()));
        assert_eq!(said.len(), expected.len(), "{}", language.name);
        for ((method, path, body), (operation, expected)) in said.iter().zip(&expected) {
            assert_eq!((method.as_str(), path), ("POST", &format!("{operations}/{operation}")));
            assert_eq!(body, expected, "{}", language.name);
        }
        assert_eq!(program.made(), [format!("step-{}.png", expected.len())], "{}", language.name);
        assert_eq!(ran.stdout.lines().count(), HOSTILE.len(), "{}", ran.stdout);
    }
    app.stop().await;
}

/// Contract: recipes 13, 16. The program contains no typed text.
#[tokio::test]
async fn program_export_requires_read_access() {
    let app = App::with_recipes().await;
    let client = app.client().await;
    let agent = client.agent().await;
    app.sign_in_turn(&agent).await;
    let id = client.recipe_of(&agent).await;
    let path = format!("/v1/recipes/{id}");
    let json = client.get(&path).await.expect(200).body;
    assert_eq!(client.get(&format!("{path}?format=json")).await.expect(200).body, json);
    for format in ["", "ruby", "Curl", "curl,python"] {
        client.get(&format!("{path}?format={format}")).await.invalid("format");
    }
    client.get(&format!("{path}?format=curl&format=python")).await.invalid("format");
    for language in &LANGUAGES {
        let of = format!("{path}?format={}", language.name);
        app.client().await.get(&of).await.problem(404, "not-found");
        let program = Program::of(&client, &id, language).await;
        assert!(!program.text.contains(SECRET) && !program.text.contains("ada@example.com"));
        assert_eq!(program.variables(), ["RECIPE_E_MAIL", "RECIPE_PASSWORD"]);
        assert!(program.text.contains(&app.base_url), "the program lacks the URL of the service");
        // The program checks its environment variables before its first request.
        let runs = if language.name == "typescript" { "recipe.mjs" } else { language.file };
        let mut command = program.command(language.run, runs);
        command.env("KITFLEET_URL", "http://127.0.0.1:1").env("KITFLEET_API_KEY", "key").env("RECIPE_E_MAIL", "");
        let ran = run(command, "").await;
        assert!(ran.code != Some(0) && ran.stderr.contains("RECIPE_PASSWORD"), "{ran:?}");
        assert!(!ran.stderr.contains("RECIPE_E_MAIL"), "the program rejects an empty value: {ran:?}");
    }
    app.stop().await;
}

/// Contract: recipes 14. The program prints the problem.
#[tokio::test]
async fn failed_program_leaves_no_session() {
    let app = App::with_recipes().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    app.turn(&agent, "plan", &[done(json!({"Navigate": {"url": "gopher://nowhere/"}}), &[])]).await;
    let id = client.recipe_of(&agent).await;
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    let key = client.key.as_deref().expect("a key");
    for language in &LANGUAGES {
        let program = Program::of(&client, &id, language).await;
        let ran = program.run(&app.base_url, key, &[]).await;
        assert!(ran.code != Some(0) && ran.stderr.contains("validation-failed"), "{ran:?}");
        let ran = program.run(&app.base_url, "wrong", &[]).await;
        assert!(ran.code != Some(0) && ran.stderr.contains("unauthorized"), "{ran:?}");
    }
    let live = "select count(*) from sessions where status in ('creating', 'ready', 'busy')";
    assert_eq!(app.count(live).await, 0);
    let of_programs = client.get("/v1/sessions").await.expect(200).body["data"].as_array().expect("a list").len();
    assert_eq!(of_programs, 1 + LANGUAGES.len(), "{account}: not one session for the agent and one for each program");
    app.stop().await;
}

const NAME: &str = "Zoë & \"friends\" $(touch hacked) `touch hacked` it's \\ 鍵 🦀";

fn filling_in(site: &Site) -> Vec<StepRow> {
    let hostile = "'; touch hacked; $(touch hacked) `touch hacked` */ \"\"\"";
    let selector = |of: &str| format!("{of}, [title=\"\\27  $(touch hacked) `touch hacked` */ ' \u{2028}\"]");
    let item = json!([{"name": "it's \"the\" name", "target": css("#name"), "attribute": null, "list": false}]);
    vec![
        done(json!({"Navigate": {"url": site.url("/form?a='$(touch hacked)`")}}), &[]),
        done(json!({"Type": {"target": words("Name"), "value": "Ada"}}), &[(&selector("#name"), hostile)]),
        done(json!({"Type": {"target": words("Password"), "value": SECRET}}), &[(&selector("#secret"), hostile)]),
        done(json!({"Tap": {"target": words("send")}}), &[(&selector("#send"), hostile)]),
        done(json!({"Wait": {"condition": {"Url": "/submitted"}}}), &[]),
        done(json!({"Extract": {"items": item}}), &[]),
        done(
            json!({"Extract": {"items": [{"name": "secret", "target": css("#secret"), "attribute": null, "list": false}]}}),
            &[],
        ),
        done(json!({"Capture": {"capture": "screenshot"}}), &[]),
    ]
}

/// Contract: recipes 14 to 16.
#[tokio::test]
async fn program_repeats_the_steps_in_a_browser() {
    let app = App::webkit().with_second_factors().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let agent = client.agent().await;
    app.turn(&agent, "plan", &filling_in(&site)).await;
    let id = client.recipe_of(&agent).await;
    client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    let key = client.key.as_deref().expect("a key");
    for language in &LANGUAGES {
        let program = Program::of(&client, &id, language).await;
        let ran = program.run(&app.base_url, key, &[NAME, SECRET]).await.code(0);
        let printed: Vec<BTreeMap<String, Value>> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let saw = [json!({"it's \"the\" name": NAME}), json!({"secret": SECRET})];
        assert_eq!(printed.iter().map(|answer| answer["value"].clone()).collect::<Vec<_>>(), saw, "{}", language.name);
        assert_eq!(program.made(), ["step-8.png"], "{}", language.name);
        let picture = fs::read(program.folder.path().join("step-8.png")).expect("a file");
        assert!(picture.starts_with(b"\x89PNG\r\n\x1a\n"), "{} bytes", picture.len());
    }
    let live = "select count(*) from sessions where status in ('creating', 'ready', 'busy')";
    assert_eq!(app.count(live).await, 0);
    app.stop().await;
}
