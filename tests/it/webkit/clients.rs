//! The SDKs and the examples of `docs/clients`, with real browsers (`tests/clients`).

use std::path::Path;

use kitfleet_types::tiers::Tier;
use tokio::process::Command;

use crate::support::App;

async fn assert_programs_end_well(arguments: &[&str]) {
    let interpreter = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients/tools/bin/python");
    assert!(interpreter.exists(), "clients/test --prepare installs the tools");
    let app = App::webkit().with_second_factors().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let mut command = Command::new("python3");
    command.arg("-B").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/run.py")).args(arguments);
    command.env("KITFLEET_URL", &client.base_url).env("KITFLEET_API_KEY", client.key.as_ref().expect("a key"));
    command.env("PYTHON", interpreter).env("NO_PROXY", "*").env("no_proxy", "*").kill_on_drop(true);
    let ran = command.output().await.expect("Python runs");
    eprintln!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "a program failed");
    app.stop().await;
}

/// A profile, a sign-in by a popup, an upload, an extraction and a trace, whose results are the same in all languages; and steps
/// of agents that wait for approval.
#[tokio::test]
async fn sdks_and_plain_calls_have_the_same_results() {
    assert_programs_end_well(&["--walks"]).await;
}

#[tokio::test]
async fn typescript_examples_of_the_documentation_run() {
    assert_programs_end_well(&["--examples", "ts"]).await;
}

#[tokio::test]
async fn python_examples_of_the_documentation_run() {
    assert_programs_end_well(&["--examples", "python"]).await;
}
