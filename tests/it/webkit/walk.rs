//! The walks of `docs/guide.md`, `docs/recordings.md` and `docs/runbook.md`, on real pages.

use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

use crate::support::{App, Client, Site};

/// Of the page.
fn walks(page: &'static str) -> Vec<&'static str> {
    page.split("```sh walk\n").skip(1).map(|rest| rest.split("```").next().expect("an end")).collect()
}

/// Returns the output.
async fn walk(client: &Client, folder: &Path, commands: &str, variables: &[(&str, &str)]) -> String {
    let call = "call() { curl -fsS -H \"Authorization: Bearer $KEY\" -H 'Content-Type: application/json' \"$@\"; }\n";
    let mut shell = Command::new("bash");
    shell.args(["-euc", &format!("{call}{commands}")]).current_dir(folder);
    shell.env("URL", &client.base_url).env("KEY", client.key.as_ref().expect("a key"));
    shell.envs(variables.iter().copied()).env("NO_PROXY", "*");
    let ran = shell.output().await.expect("a shell");
    let said = String::from_utf8(ran.stdout).expect("text");
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    said
}

/// By operations, and by messages to an agent session.
///
/// Contract: operations 43 to 48; files 2, 15; agents 48 to 52.
#[tokio::test]
async fn walks_of_the_guide_reach_their_ends() {
    let walks = walks(include_str!("../../../docs/guide.md"));
    assert_eq!(walks.len(), 2, "{walks:?}");
    let app = App::webkit().with_second_factors().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    for (commands, is_by_messages) in walks.into_iter().zip([false, true]) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("receipt.pdf"), b"a receipt").expect("a file");
        let said = walk(&client, folder.path(), commands, &[("SHOP", &site.url("/walk"))]).await;
        assert!(said.contains("receipt.pdf of 2026-11-20 was handed in."), "{said}");
        assert!(said.contains("Hand in the receipt of 2026-11-20?"), "{said}");
        if is_by_messages {
            let (_, downloads) = said.split_once("\"downloads\":").expect("downloads");
            assert!(downloads.contains("\"bytes\":5") && downloads.contains("\"status\":\"complete\""), "{said}");
        } else {
            assert_eq!(std::fs::read(folder.path().join("statement.pdf")).expect("a file"), b"xxxxx");
        }
    }
    app.stop().await;
}

/// Contract: recordings 7, 20 to 27, 31 to 34.
#[tokio::test]
async fn walk_of_recordings_reads_what_it_has_recorded() {
    let app = App::webkit().start().await;
    let (client, folder) = (app.client().await, tempfile::tempdir().expect("a folder"));
    let commands = walks(include_str!("../../../docs/recordings.md")).concat();
    let said = walk(&client, folder.path(), &commands, &[]).await;
    assert!(said.contains("Tap button \\\"Send\\\"") && said.contains("event: end"), "{said}");
    assert!(!said.contains("id: 1\n"), "the stream has an event before the one that it continues after: {said}");
    assert!(said.trim_end().ends_with("{\"data\":[],\"has_more\":false,\"next_cursor\":null}"), "{said}");
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("a file");
    assert!(read("after.jpeg").starts_with(&[0xff, 0xd8]));
    let har: Value = serde_json::from_slice(&read("session.har")).expect("JSON");
    assert!(har["log"]["entries"].as_array().is_some_and(|entries| !entries.is_empty()), "{har}");
    for trace in ["session.zip", "shared.zip"] {
        assert!(read(trace).starts_with(b"PK"), "{trace}");
    }
    app.stop().await;
}

/// Contract: recordings 2, 5, 9.
#[tokio::test]
async fn walk_of_the_runbook_finds_the_cause_of_a_failure() {
    let page = "<button onclick=\"fetch('/pay', {method: 'POST'}).then((answer) => {
        if (!answer.ok) throw new Error('the payment failed with ' + answer.status) })\">Pay</button>";
    let app = App::webkit().start().await;
    let (site, client) = (Site::start().await, app.client().await);
    let folder = tempfile::tempdir().expect("a folder");
    let commands = walks(include_str!("../../../docs/runbook.md")).concat();
    let said = walk(&client, folder.path(), &commands, &[("PAGE", &site.written(page))]).await;
    for expected in [
        "the wait has failed",
        "\"status\":\"errored\"",
        "\"end_reason\":\"failed\"",
        "\"description\":\"Wait for #receipt",
        "\"outcome\":\"timeout\"",
        "/pay\"",
        "\"status\":404",
        "the payment failed with 404",
    ] {
        assert!(said.contains(expected), "no {expected} in {said}");
    }
    assert!(std::fs::read(folder.path().join("trace.zip")).expect("a file").starts_with(b"PK"));
    app.stop().await;
}
