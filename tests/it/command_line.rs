//! Contract: command-line; configuration.

mod operating;
mod running;

use std::fs;

use kitfleet_types::tiers::Tier;
use serde_json::json;
use tempfile::TempDir;

use crate::support::app::free_port;
use crate::support::commands::{CommandOutput, alone, run};
use crate::support::{App, Client, Role, unknown_id};
use crate::teams::delete_me;

/// Contract: command-line 5, 12. The password is stored only as an argon2id hash.
#[tokio::test]
async fn account_and_key_can_be_created() {
    let app = App::simulated().start().await;
    let create = async |more: &[&str], password: &str| {
        let args = ["account", "create", "--email", "Ada@Example.com", "--password-stdin", "--name", "Ada Lovelace"];
        run(app.command(&[&args, more].concat()), password).await
    };
    create(&[], "too short\n").await.code(1);
    let created =
        create(&["--tier", "api_starter", "--verified", "--json"], "correct horse battery\n").await.code(0).json();
    let account = created["id"].as_str().expect("an id").to_owned();
    assert!(account.starts_with("acc_"), "{created}");
    create(&[], "correct horse battery\n").await.code(1);
    let hashes =
        "select count(*) from accounts where password_hash like '$argon2id$%' and email_verified_at is not null";
    assert_eq!(app.count(hashes).await, 1);
    assert_eq!(app.tables_with("correct horse").await, Vec::<String>::new());

    let shown = app.run(&["account", "show", &account, "--json"]).await.code(0).json();
    for (member, value) in
        [("id", account.as_str()), ("name", "Ada Lovelace"), ("tier", "api_starter"), ("status", "active")]
    {
        assert_eq!(shown[member], value);
    }
    assert!(!shown.to_string().contains("argon2"), "{shown}");
    assert!(app.run(&["account", "show", &account]).await.code(0).stdout.contains("api_starter"));

    let mint = ["key", "mint", &account, "--name", "laptop", "--scopes", "read,write"];
    let minted = app.run(&[&mint[..], &["--json"]].concat()).await.code(0).json();
    let key = minted["key"].as_str().expect("a key");
    let plain = app.run(&mint).await.code(0);
    let plain_key = keys_in(&plain.stdout).pop().expect("a key on standard output");
    assert_ne!(key, plain_key);
    for key in [key, &plain_key] {
        let client = Client::new(&app.base_url, Some(key));
        let session = client.session().await;
        client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    }
    assert_eq!(app.tables_with(key).await, Vec::<String>::new(), "the key itself is stored");

    app.run(&["account", "set-tier", &account, "team_manual"]).await.code(0);
    let set = app.run(&["account", "set-tier", &account, "enterprise", "--json"]).await.code(0);
    assert!(set.json().is_object());
    let shown = app.run(&["account", "show", &account, "--json"]).await.code(0).json();
    assert_eq!(shown["tier"], "enterprise");
    let changes = "select count(*) from audit_log where action = 'subscription.tier_changed' and actor_type = 'system'";
    assert_eq!(app.count(changes).await, 2);
    // The default tier is the free one.
    let args = ["account", "create", "--email", "free@example.com", "--name", "Free", "--json"];
    let free = app.run(&args).await.code(0).json();
    let id = free["id"].as_str().expect("an id");
    assert_eq!(app.run(&["account", "show", id, "--json"]).await.code(0).json()["tier"], Tier::Free.name());
    app.stop().await;
}

/// Contract: command-line 5; accounts 6, 7. It is 403 until it is reactivated.
#[tokio::test]
async fn account_can_be_suspended_and_reactivated() {
    let app = App::simulated().start().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let account = account.to_string();
    let sessions = [client.session().await, client.session().await];
    let wait = client.waiting(&sessions[1], 60_000);
    app.busy(&sessions[1]).await;

    let suspended = app.run(&["account", "suspend", &account, "--json"]).await.code(0).json();
    assert_eq!(suspended, json!({"id": account, "status": "suspended", "reclaimed": 2}));
    wait.await.expect("a task").problem(410, "session-destroyed");
    for session in &sessions {
        assert_eq!(app.status_of(session).await, "destroyed");
    }
    let refused = client.post("/v1/sessions", json!({})).await.problem(403, "forbidden");
    assert_eq!(refused.body["title"], "AccountSuspended");
    assert!(app.run(&["account", "suspend", &account]).await.code(0).stdout.contains(" 0 live sessions"));
    assert_eq!(app.run(&["account", "show", &account, "--json"]).await.code(0).json()["status"], "suspended");
    let mint = ["key", "mint", &account, "--name", "laptop", "--scopes", "read"];
    assert!(app.run(&mint).await.code(1).error_text().contains("is suspended"));

    let reactivated = app.run(&["account", "reactivate", &account, "--json"]).await.code(0).json();
    assert_eq!(reactivated, json!({"id": account, "status": "active"}));
    assert!(app.run(&["account", "reactivate", &account]).await.code(0).stdout.contains("active"));
    client.session().await;
    app.stop().await;
}

/// Contract: command-line 1; accounts 3. The owner has no mailbox, and signs in by password once a link has set one.
#[tokio::test]
async fn printed_links_sign_in_the_local_owner() {
    let app = App::simulated().roles(&[Role::Api]).start().await;
    let link = ["account", "sign-in-link"];
    assert!(app.run(&link).await.code(1).error_text().contains("local owner"));
    let owner = app.account(Tier::Enterprise).await;
    let local = "update accounts set email = 'owner@localhost', email_key = 'owner@localhost', password_hash = null where id = $1";
    app.execute(local, owner.as_uuid()).await;
    let token_of = |link: &str, page: &str| {
        let start = format!("{}/{page}?token=", app.base_url);
        link.trim().strip_prefix(&start).unwrap_or_else(|| panic!("a link to {start}: {link}")).to_owned()
    };

    let [earlier, later] = [app.run(&link).await.code(0).stdout, app.run(&link).await.code(0).stdout];
    let sign_in = async |link: &str| {
        let token = token_of(link, "magic-link");
        app.stranger().post("/v1/auth/magic-link/consume", json!({"token": token})).await
    };
    sign_in(&earlier).await.invalid("token");
    let client = app.signed_in(&sign_in(&later).await);
    sign_in(&later).await.invalid("token");
    let me = client.get("/v1/account/me").await.expect(200).body;
    assert_eq!((&me["email"], &me["has_password"]), (&json!("owner@localhost"), &json!(false)));

    let printed = app.run(&["account", "sign-in-link", "--reset-password", "--json"]).await.code(0).json();
    let token = token_of(printed["link"].as_str().expect("a link"), "reset-password");
    let body = json!({"token": token, "new_password": "correct horse battery"});
    app.stranger().post("/v1/auth/password-reset/confirm", body).await.expect(200);
    client.get("/v1/account/me").await.problem(401, "unauthorized");
    let client = app.signed_in(&app.log_in("owner@localhost", "correct horse battery").await);
    assert_eq!(client.get("/v1/account/me").await.expect(200).body["has_password"], true);

    app.run(&["account", "suspend", &owner.to_string()]).await.code(0);
    app.run(&link).await.code(1);
    app.stop().await;
}

/// Contract: command-line 5; accounts 7.
#[tokio::test]
async fn deleted_account_cannot_be_changed() {
    let app = App::simulated().start().await;
    let person = app.person(Tier::Free).await;
    delete_me(&person).await.expect(204);
    let account = person.account.to_string();
    for change in [&["suspend", &account][..], &["reactivate", &account], &["set-tier", &account, "api_builder"]] {
        let refused = app.run(&[&["account"], change].concat()).await.code(1);
        assert!(refused.error_text().contains("there is no account"), "{change:?}: {refused:?}");
    }
    let shown = app.run(&["account", "show", &account, "--json"]).await.code(0).json();
    assert_eq!((&shown["status"], &shown["tier"]), (&json!("deleted"), &json!("free")));
    app.stop().await;
}

/// Contract: configuration 5; limits 1, 2.
#[tokio::test]
async fn session_limit_of_tier_is_configurable() {
    let app = App::simulated().set("limits.concurrent_sessions.solo_manual", "2").start().await;
    let client = app.client_with(Tier::SoloManual, &["account_owner"]).await;
    client.session().await;
    client.session().await;
    let refused = client.post("/v1/sessions", json!({})).await.problem(429, "concurrency-limit");
    assert_eq!((&refused.body["current_sessions"], &refused.body["limit"]), (&json!(2), &json!(2)));
    app.stop().await;
}

fn keys_in(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("svc_live_") && word.len() == 81).map(ToOwned::to_owned).collect()
}

/// Contract: command-line 12. `--help` describes each command.
#[tokio::test]
async fn failure_exits_with_1_and_misuse_with_2() {
    let app = App::simulated().start().await;
    let account = app.account(Tier::Enterprise).await.to_string();
    let (unknown, worker) = (unknown_id("acc"), unknown_id("wrk"));
    let failures: [&[&str]; 9] = [
        &["account", "show", &unknown],
        &["account", "suspend", &unknown],
        &["account", "reactivate", &unknown],
        &["account", "set-tier", &unknown, "free"],
        &["key", "mint", &unknown, "--name", "n", "--scopes", "read"],
        &["workers", "drain", &worker],
        &["jobs", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        &["jobs", "retry", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
        &["jobs", "cancel", "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
    ];
    for args in failures {
        let ran = app.run(args).await.code(1);
        assert!(!ran.error_text().is_empty());
        assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
    let misuses: [&[&str]; 17] = [
        &["jobs", "show", "x"],
        &["jobs", "retry", "int_x"],
        &["jobs", "cancel", "wdl_x"],
        &["workers", "drain", "wrk_x"],
        &[],
        &["fly"],
        &["--fly"],
        &["account"],
        &["account", "create"],
        &["account", "show"],
        &["account", "show", "acc_x"],
        &["account", "set-tier", &account, "gold"],
        &["key", "mint", &account, "--name", "n"],
        &["key", "mint", &account, "--name", "n", "--scopes", "fly"],
        &["jobs", "list", "--status", "asleep"],
        &["sweep"],
        &["sweep", "moon"],
    ];
    for args in misuses {
        let ran = app.run(args).await.code(2);
        assert!(!ran.stderr.is_empty(), "{args:?} prints no error");
    }
    let help = app.run(&["--help"]).await.code(0).stdout;
    let commands = [
        "up",
        "api",
        "worker",
        "migrate",
        "config",
        "openapi",
        "doctor",
        "account",
        "key",
        "sessions",
        "workers",
        "jobs",
        "deliveries",
        "sweep",
    ];
    for command in commands {
        let line = help.lines().find(|line| line.trim_start().starts_with(command)).expect("each command has a line");
        assert!(line.split_whitespace().count() >= 3, "the help does not describe {command}");
        app.run(&[command, "--help"]).await.code(0);
    }
    assert!(app.run(&["--version"]).await.code(0).stdout.contains(env!("CARGO_PKG_VERSION")));
    app.stop().await;
}

/// Contract: configuration 1, 6; command-line 4. The environment overrides the file, and the file overrides the defaults.
#[tokio::test]
async fn configuration_is_layered_and_secrets_are_masked() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("kitfleet.toml"), "[sessions]\nfree_tier_cap = \"5m\"\n").expect("a file");
    let other = folder.path().join("other.toml");
    fs::write(&other, "[sessions]\nfree_tier_cap = \"7m\"\n[server]\nlisten = \"127.0.0.1:9\"\n").expect("a file");
    let other = other.to_str().expect("text");
    let config = async |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = alone(folder.path(), &[&["config"], args].concat());
        command.envs(variables.iter().copied());
        run(command, "").await.code(0)
    };
    let cap = |ran: &CommandOutput| ran.json()["sessions"]["free_tier_cap"].clone();
    assert_eq!(cap(&config(&["--json"], &[]).await), "5m");
    assert_eq!(cap(&config(&["--config", other, "--json"], &[]).await), "7m");
    let variable = ("KITFLEET_SESSIONS__FREE_TIER_CAP", "9m");
    assert_eq!(cap(&config(&["--config", other, "--json"], &[variable]).await), "9m");
    let printed = config(&["--json"], &[]).await.json();
    assert_eq!(printed["server"]["listen"], "127.0.0.1:8080");
    assert_eq!(printed["server"]["base_url"], "http://127.0.0.1:8080");
    assert_eq!(printed["worker"]["driver"], "webkit");
    assert_eq!(printed["sessions"]["direct_driver"], "reported");

    let secrets = [
        ("DATABASE_URL", "postgres://kit:hunter2@db.example/kit"),
        ("REDIS_URL", "redis://:hunter2@redis.example"),
        ("METRICS_SCRAPE_TOKEN", "hunter2"),
    ];
    for args in [&["--json"][..], &[]] {
        let printed = config(args, &secrets).await.stdout;
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("db.example"), "the host of the database is not masked: {printed}");
    }
}

/// Contract: configuration 1, 4. The line names the key or value.
#[tokio::test]
async fn invalid_configuration_fails_with_one_line() {
    let folder = TempDir::new().expect("a folder");
    let cases: [(&str, Variables<'_>, &str); 16] = [
        ("[server]\nlisten_on = \"127.0.0.1:1\"", &[], "server.listen_on"),
        ("[sesions]\nfree_tier_cap = \"5m\"", &[], "sesions"),
        ("[sessions]\nfree_tier_cap = \"soon\"", &[], "sessions.free_tier_cap"),
        ("[worker]\ndriver = \"chrome\"", &[], "worker.driver"),
        ("[server", &[], "kitfleet.toml"),
        ("", &[("KITFLEET_SERVER__LISTEN_ON", "127.0.0.1:1")], "KITFLEET_SERVER__LISTEN_ON"),
        ("", &[("KITFLEET_SESSIONS__FREE_TIER_CAP", "5 parsecs")], "sessions.free_tier_cap"),
        ("", &[("KITFLEET_SERVER__LISTEN", "everywhere")], "server.listen"),
        ("", &[("KITFLEET_SERVER__TRUSTED_PROXIES", "10.0.0.0/99")], "server.trusted_proxies"),
        ("", &[("DATABASE_URL", "mysql://kit:hunter2@db/kit")], "database.url"),
        ("", &[("DATABASE_URL", "")], "DATABASE_URL is set and empty"),
        ("", &[("KITFLEET_DATABASE__URL", "")], "KITFLEET_DATABASE__URL is set and empty"),
        ("", &[("KITFLEET_DATABASE__LISTEN_URL", "")], "KITFLEET_DATABASE__LISTEN_URL is set and empty"),
        ("", &[("MFA_ENCRYPTION_KEY", "hunter2")], "MFA_ENCRYPTION_KEY"),
        ("[webhooks]\ntimeout = 10", &[], "webhooks.timeout"),
        ("[auth]\nsession_tll = \"30d\"", &[], "auth.session_tll"),
    ];
    for (file, variables, key) in cases {
        fs::write(folder.path().join("kitfleet.toml"), file).expect("a file");
        for role in ["up", "api", "worker", "migrate", "config"] {
            let mut command = alone(folder.path(), &[role]);
            command.envs(variables.iter().copied());
            let ran = run(command, "").await;
            // The contract leaves open whether an invalid configuration is exit code 1 or 2.
            assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
            assert!(ran.stdout.is_empty(), "{ran:?}");
            let line = ran.error_text();
            assert!(line.contains(key), "{role}: {line} does not name {key}");
            assert!(!line.contains("hunter2"), "{line}");
        }
    }
    fs::remove_file(folder.path().join("kitfleet.toml")).expect("the file");
    let ran = run(alone(folder.path(), &["--config", "missing.toml", "config"]), "").await;
    assert!(matches!(ran.code, Some(1 | 2)), "{ran:?}");
    assert!(ran.error_text().contains("missing.toml"));
    let ran = run(alone(folder.path(), &["--config", ".", "config"]), "").await.code(2);
    assert!(ran.error_text().contains("Is a directory"), "{ran:?}");
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 0, "a failed start left files behind");
}

/// The folder is the wrong one.
#[tokio::test]
async fn command_without_database_fails_and_creates_none() {
    let folder = TempDir::new().expect("a folder");
    let account = unknown_id("acc");
    for args in [&["account", "show", &account][..], &["workers", "list"], &["jobs", "list"], &["sweep", "free-tier"]] {
        let ran = run(alone(folder.path(), args), "").await.code(1);
        let line = ran.error_text();
        assert!(line.contains("there is no database in") && line.contains(".kitfleet"), "{args:?}: {line}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
}

/// Contract: configuration 5.
#[tokio::test]
async fn every_configuration_key_has_its_default() {
    let folder = TempDir::new().expect("a folder");
    let printed = run(alone(folder.path(), &["config", "--json"]), "").await.code(0).json();
    let listed = json!({
        "/server/trusted_proxies": [],
        "/database/url": null,
        "/redis/url": null,
        "/email/transport": "file",
        "/email/smtp_url": null,
        "/webhooks/retry_schedule": ["1m", "5m", "15m", "30m", "1h"],
        "/webhooks/timeout": "10s",
        "/webhooks/auto_disable_after": 50,
        "/webhooks/secret_grace": "1d",
        "/webhooks/secret_reminder_after": "60d",
        "/webhooks/allow_private_targets": false,
        "/webhooks/extra_ca_file": null,
        "/sessions/free_tier_cap": "20m",
        "/sessions/require_customer_egress": false,
        "/sessions/allow_private_targets": false,
        "/worker/warm_pool": "auto",
        "/auth/session_ttl": "30d",
        "/auth/verification_ttl": "30m",
        "/auth/magic_link_ttl": "15m",
        "/auth/reset_ttl": "1h",
        "/auth/challenge_ttl": "5m",
        "/auth/step_up_ttl": "15m",
        "/auth/device_code_ttl": "10m",
        "/auth/device_bound_ttl": "2m",
        "/auth/send_rate_per_minute": 3,
        "/mfa/encryption_key": null,
        "/teams/invite_ttl": "7d",
        "/agents/heartbeat_timeout": "30s",
        "/api_keys/rotation_grace": "1d",
        "/billing/card/webhook_secret": null,
        "/billing/crypto/ipn_secret": null,
        "/billing/prices/api_builder": null,
        "/limits/enterprise_profiles": 1000,
        "/limits/concurrent_sessions/api_scale": 24,
    });
    for (key, default) in listed.as_object().expect("an object") {
        assert_eq!(printed.pointer(key), Some(default), "{key}");
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// Contract: command-line 3, 4. `migrate` can run concurrently too. `openapi` needs no configuration.
#[tokio::test]
async fn migrate_is_repeatable_and_openapi_needs_no_database() {
    let app = App::simulated().start().await;
    let runs = (0..3).map(|_| {
        let command = app.command(&["migrate"]);
        async move { run(command, "").await }
    });
    for ran in crate::support::at_once(runs).await {
        ran.code(0);
    }
    let folder = TempDir::new().expect("a folder");
    let contract = run(alone(folder.path(), &["openapi"]), "").await.code(0).json();
    assert!(contract["paths"]["/v1/sessions"].is_object());
    assert_eq!(run(alone(folder.path(), &["openapi", "--json"]), "").await.code(0).json(), contract);
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);

    let mut nowhere = alone(folder.path(), &["migrate"]);
    nowhere.env("DATABASE_URL", format!("postgres://127.0.0.1:{}/none", free_port()));
    assert!(!run(nowhere, "").await.code(1).error_text().is_empty());
    app.stop().await;
}

/// Contract: command-line 10.
#[tokio::test]
async fn doctor_names_missing_parts() {
    let app = App::simulated().start().await;
    let healthy = app.run(&["doctor", "--json"]).await;
    assert!(matches!(healthy.code, Some(0 | 1)), "{healthy:?}");
    assert!(healthy.json().to_string().contains("atabase"));
    let mut command = app.command(&["doctor"]);
    command.env("DATABASE_URL", format!("postgres://127.0.0.1:{}/none", free_port()));
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.to_lowercase().contains("database"), "{ill:?}");
    // A server that accepts connections and never answers.
    let still = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    for asked in [&["doctor"][..], &["workers", "list"]] {
        let mut command = app.command(asked);
        command.env("DATABASE_URL", format!("postgres://{}/none", still.local_addr().expect("an address")));
        let ill = run(command, "").await.code(1);
        let output = format!("{}{}", ill.stdout, ill.stderr);
        assert!(output.contains("(database.url) cannot be reached"), "{output}");
    }
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_WORKER__DRIVER", "webkit").env("KITFLEET_WORKER__HOST_PROGRAM", "/nowhere/kitfleet-host");
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("/nowhere/kitfleet-host is missing (worker.host_program)"), "{ill:?}");
    let output = format!("{}{}", ill.stdout, ill.stderr);
    assert!(
        !output.contains("bubblewrap") && !output.contains("CONFINEMENT"),
        "the confinement is not reported as the fault: {output}"
    );
    // A payment provider without the secret of its webhook.
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_BILLING__CARD__SECRET_KEY", "sk_test_1");
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("billing.card.secret_key is set, but billing.card.webhook_secret is not"), "{ill:?}");
    let host = app.data_dir.path().join("kitfleet-host");
    fs::write(&host, "").expect("a file");
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_WORKER__DRIVER", "webkit").env("KITFLEET_WORKER__HOST_PROGRAM", &host);
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("a build puts kitfleet-keeper beside kitfleet"), "{ill:?}");
    fs::write(host.with_file_name("kitfleet-keeper"), "").expect("a file");
    let mut command = app.command(&["doctor"]);
    command.env("KITFLEET_WORKER__DRIVER", "webkit").env("KITFLEET_WORKER__HOST_PROGRAM", &host);
    let ill = run(command, "").await.code(1);
    assert!(ill.stdout.contains("libkitfleet_extension.so is missing (worker.host_program)"), "{ill:?}");
    app.stop().await;
}
