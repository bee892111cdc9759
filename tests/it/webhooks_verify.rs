//! The verifiers in `docs/verify`, tested with real deliveries (contract: webhooks 11, 12).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::commands::run;
use crate::support::sink::{Received, Sink};
use crate::support::{App, Client};

#[path = "../../docs/verify/kitfleet_webhook.rs"]
#[expect(
    clippy::duration_suboptimal_units,
    clippy::format_collect,
    reason = "the file is short and supports older Rust versions"
)]
mod kitfleet_webhook;

use self::kitfleet_webhook::{NotVerified, TOLERANCE, verify, verify_at};

#[derive(Debug, Clone, Serialize)]
struct VerifierInput {
    secret: String,
    header: Option<String>,
    #[serde(serialize_with = "in_base64")]
    body: Vec<u8>,
    /// The machine's time if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<u64>,
}

fn in_base64<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

impl VerifierInput {
    fn of(received: &Received, secret: &str) -> Self {
        let header = received.header("x-service-signature").to_owned();
        Self { secret: secret.to_owned(), header: Some(header), body: received.body.clone(), now: None }
    }

    fn with_header(&self, header: &str) -> Self {
        Self { header: Some(header.to_owned()), ..self.clone() }
    }

    fn at(&self, now: u64) -> Self {
        Self { now: Some(now), ..self.clone() }
    }

    fn in_rust(&self) -> &'static str {
        let header = self.header.as_deref().unwrap_or_default();
        let verdict = match self.now {
            None => verify(&self.secret, header, &self.body),
            Some(now) => {
                let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
                verify_at(&self.secret, header, &self.body, TOLERANCE, now)
            }
        };
        match verdict {
            Ok(()) => "verified",
            Err(NotVerified::NoSecret) => "misused",
            Err(NotVerified::Malformed) => "malformed",
            Err(NotVerified::Time) => "time",
            Err(NotVerified::Signature) => "signature",
        }
    }
}

fn in_project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

async fn judged(command: Command, asked: &[VerifierInput]) -> Vec<String> {
    let asked = serde_json::to_string(asked).expect("JSON");
    serde_json::from_value(run(command, &asked).await.code(0).json()).expect("a list of words")
}

async fn in_python(asked: &[VerifierInput]) -> Vec<String> {
    let mut command = Command::new("python3");
    // -B prevents compiled files in the project.
    command.arg("-B").arg(in_project("tests/verifiers/judge.py")).env("PYTHONPATH", in_project("docs/verify"));
    judged(command, asked).await
}

async fn in_typescript(asked: &[VerifierInput]) -> Vec<String> {
    let (folder, out) = (in_project("tests/verifiers"), TempDir::new().expect("a folder"));
    let compiler = folder.join("node_modules/typescript/bin/tsc");
    assert!(compiler.exists(), "./ops/test installs the compiler");
    let mut compile = Command::new("node");
    compile.arg(compiler).arg("--project").arg(folder).arg("--outDir").arg(out.path());
    run(compile, "").await.code(0);
    let mut command = Command::new("node");
    command.arg(out.path().join("tests/verifiers/judge.js"));
    judged(command, asked).await
}

async fn rotate(client: &Client, endpoint: &Value) -> String {
    let path = format!("/v1/webhooks/{}/rotate-secret", endpoint["id"].as_str().expect("an id"));
    secret_of(&client.post(&path, json!({})).await.expect(200).body)
}

fn secret_of(body: &Value) -> String {
    body["secret"].as_str().expect("a secret").to_owned()
}

/// Contract: webhooks 12. Its raw bytes match any `v1=`, and its time is within 300 s.
#[tokio::test]
async fn verifiers_accept_only_signed_deliveries() {
    let sink = Sink::start().await;
    let app = App::simulated().delivering_to(&sink).start().await;
    let client = app.client().await;
    let body = json!({"url": sink.url("/ok"), "events": ["api_key.revoked"]});
    let endpoint = client.post("/v1/webhooks", body).await.expect(201).body;
    // A name with non-ASCII characters: the signature is over bytes, not characters.
    let revoke = async || {
        let body = json!({"name": "Schlüssel 鍵", "scopes": ["read"]});
        let key = client.post("/v1/api-keys", body).await.expect(201).body;
        client.delete(&format!("/v1/api-keys/{}", key["id"].as_str().expect("an id"))).await.expect(204);
    };
    revoke().await;
    let single = sink.receives("/ok", 1).await.remove(0);
    let first = secret_of(&endpoint);
    let second = rotate(&client, &endpoint).await;
    revoke().await;
    let double = sink.receives("/ok", 2).await.remove(1);
    let third = rotate(&client, &endpoint).await;
    revoke().await;
    let again = sink.receives("/ok", 3).await.remove(2);
    app.stop().await;

    let asked = VerifierInput::of(&single, &first);
    let header = asked.header.clone().expect("a header");
    let (time, signature) = header.strip_prefix("t=").and_then(|rest| rest.split_once(",v1=")).expect("two parts");
    let sent: u64 = time.parse().expect("seconds");
    let tampered = String::from_utf8(single.body.clone()).expect("text").replace("鍵", "键");
    let rewritten = serde_json::to_vec_pretty(&single.json()).expect("JSON");
    let mut cases = vec![
        (asked.clone(), "verified"),
        // Both secrets of a rotation, and no other secret.
        (VerifierInput::of(&double, &first), "verified"),
        (VerifierInput::of(&double, &second), "verified"),
        (VerifierInput::of(&double, &third), "signature"),
        (VerifierInput::of(&again, &first), "signature"),
        (VerifierInput::of(&again, &second), "verified"),
        (VerifierInput::of(&again, &third), "verified"),
        // Other secrets.
        (VerifierInput::of(&single, &second), "signature"),
        (VerifierInput::of(&single, &first["whsec_".len()..]), "signature"),
        (VerifierInput::of(&single, &format!("{first} ")), "signature"),
        (VerifierInput::of(&single, ""), "misused"),
        // Other bodies.
        (VerifierInput { body: tampered.into_bytes(), ..asked.clone() }, "signature"),
        (VerifierInput { body: rewritten, ..asked.clone() }, "signature"),
        (VerifierInput { body: Vec::new(), ..asked.clone() }, "signature"),
        // Other times.
        (asked.at(sent + 300), "verified"),
        (asked.at(sent - 300), "verified"),
        (asked.at(sent + 301), "time"),
        (asked.at(sent - 301), "time"),
        (asked.with_header(&format!("t={},v1={signature}", sent + 400)).at(sent + 400), "signature"),
        (asked.with_header(&format!("t=0{time},v1={signature}")), "signature"),
        (asked.with_header(&format!("t=999999999999,v1={signature}")), "time"),
        (asked.with_header(&format!("t=0,v1={signature}")), "time"),
        // Parts in another order, and unknown parts.
        (asked.with_header(&format!("v1={signature},t={time}")), "verified"),
        (asked.with_header(&format!("t={time},v0=x,v1=,v1={signature},v2=y,z")), "verified"),
        // Other signatures.
        (asked.with_header(&format!("t={time},v1=")), "signature"),
        (asked.with_header(&format!("t={time},v1={}", &signature[..63])), "signature"),
        (asked.with_header(&format!("t={time},v1={signature}0")), "signature"),
        (asked.with_header(&format!("t={time},v1={}", signature.to_uppercase())), "signature"),
        (asked.with_header(&format!("t={time},v1={}", "ü".repeat(32))), "signature"),
        (VerifierInput { header: None, ..asked.clone() }, "malformed"),
    ];
    let malformed = [
        String::new(),
        time.to_owned(),
        format!("t={time}"),
        format!("t={time},v0={signature}"),
        format!("v1={signature}"),
        format!("t=,v1={signature}"),
        format!("t={time},t={time},v1={signature}"),
        format!("t=+{time},v1={signature}"),
        format!("t= {time},v1={signature}"),
        format!("t={time}\n,v1={signature}"),
        format!("t={}_{},v1={signature}", &time[..1], &time[1..]),
        format!("t={time}.0,v1={signature}"),
        format!("t=-{time},v1={signature}"),
        format!("t=1e9,v1={signature}"),
        format!("t=١٧٠٠٠٠٠٠٠٠,v1={signature}"),
        format!("t={},v1={signature}", "9".repeat(5_000)),
    ];
    cases.extend(malformed.iter().map(|header| (asked.with_header(header), "malformed")));

    let (asked, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let verdicts = [
        ("Rust", asked.iter().map(|one| one.in_rust().to_owned()).collect()),
        ("Python", in_python(&asked).await),
        ("TypeScript", in_typescript(&asked).await),
    ];
    for (language, verdicts) in verdicts {
        assert_eq!(verdicts.len(), asked.len());
        for ((verdict, expected), asked) in verdicts.iter().zip(&expected).zip(&asked) {
            assert_eq!(verdict, expected, "{language}: {asked:?}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_headers_are_rejected(header in "(t=|v1=|[0-9]{1,14}|[0-9a-f]{64}|,| |\\PC){0,12}", body in any::<Vec<u8>>()) {
        let verdict = verify("whsec_secret", &header, &body);
        prop_assert!(matches!(verdict, Err(NotVerified::Malformed | NotVerified::Time | NotVerified::Signature)));
    }
}
