//! The contract, held against the service as it runs (contract: versioning 5).

use std::path::Path;

use kitfleet_domain::accounts::Tier;
use tokio::process::Command;

use crate::support::App;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/contract/schemathesis.toml");

/// Whatever a program makes of the contract, well-formed or not, is answered as the contract says: with one of its
/// statuses, its media types, its headers and a body of its schema, and never because the service has failed.
#[tokio::test]
async fn the_service_keeps_to_its_contract() {
    let app = App::simulated()
        .with_second_factors()
        // What is switched off, or asked too often, would say little else.
        .set("sessions.direct_driver", "real")
        .set("metrics.scrape_token", "the deployment's")
        .set("auth.send_rate_per_minute", "100000")
        .set("rate_limits.credential_per_minute", "1000000")
        .set("limits.max_time_wait", "100ms")
        .start()
        .await;
    let ada = app.person(Tier::Enterprise).await;
    app.device_of(ada.account).await;
    let devices = ada.client.get("/v1/account/web-sessions").await.expect(200);
    let mut devices = devices.body["data"].as_array().expect("a list").iter();
    let other = devices.find(|device| device["current"] == false).expect("another device");

    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("schemathesis/bin/schemathesis");
    assert!(program.exists(), "./ops/test installs schemathesis");
    let mut command = Command::new(program);
    command.args(["--config-file", CONFIG, "run", &format!("{}/openapi.json", app.base_url)]);
    command.current_dir(app.data_dir.path()).env_clear().kill_on_drop(true);
    command.env("HOME", app.data_dir.path()).env("LANG", "C.UTF-8");
    command.env("KITFLEET_TOKEN", ada.token()).env("KITFLEET_ACCOUNT", ada.account.to_string());
    command.env("KITFLEET_OTHER_DEVICE", other["id"].as_str().expect("an id"));
    let output = command.output().await.expect("schemathesis runs");
    eprintln!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the service does not keep to its contract");
    ada.client.get("/v1/account/me").await.expect(200);
    app.stop().await;
}
