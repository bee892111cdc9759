use std::fs;

use super::*;

fn read(file: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(DEFAULT_FILE);
    fs::write(&path, file).expect("a file");
    let environment = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    Config::read(Some(&path), environment).map_err(|error| error.to_string())
}

fn mistake(file: &str, variables: &[(&str, &str)]) -> String {
    let message = read(file, variables).expect_err("a bad configuration was accepted");
    assert!(!message.contains('\n'), "more than a line: {message}");
    message
}

#[test]
fn environment_overrides_file_and_file_overrides_defaults() {
    let file = "[server]\nlisten = \"127.0.0.1:1\"\n[sessions]\nfree_tier_cap = \"5m\"";
    let config = read(file, &[("KITFLEET_SERVER__LISTEN", "127.0.0.1:2")]).expect("a good configuration");
    assert_eq!(config.server.listen.port(), 2);
    assert_eq!(config.sessions.free_tier_cap, Duration::from_mins(5));
    assert_eq!(config.sessions.open_timeout, Duration::from_secs(30));
    assert_eq!(config.server.base_url_at(config.server.listen), "http://127.0.0.1:2");
}

#[test]
fn warm_pool_is_a_number_or_auto() {
    let pool = |file: &str, variables: &[(&str, &str)]| read(file, variables).map(|config| config.worker.warm_pool);
    assert_eq!(pool("", &[]), Ok(WarmPool::Auto));
    assert_eq!(pool("[worker]\nwarm_pool = 0", &[]), Ok(WarmPool::Exactly(0)));
    let variable = "KITFLEET_WORKER__WARM_POOL";
    assert_eq!(pool("[worker]\nwarm_pool = \"auto\"", &[(variable, "12")]), Ok(WarmPool::Exactly(12)));
    assert_eq!(pool("[worker]\nwarm_pool = 3", &[(variable, "auto")]), Ok(WarmPool::Auto));
}

#[test]
fn prefixed_variables_override_common_names() {
    let bare = ("DATABASE_URL", "postgres://bare/a");
    let config = read("", &[bare]).expect("a good configuration");
    assert!(format!("{:?}", config.database.url).contains("bare"));
    let config = read("", &[bare, ("KITFLEET_DATABASE__URL", "postgres://ours/a")]).expect("a good configuration");
    assert!(format!("{:?}", config.database.url).contains("ours"));
}

#[test]
fn config_error_is_one_line_that_names_the_key() {
    assert!(mistake("[server]\nlisten_on = 1", &[]).contains("`server.listen_on`, in "));
    assert!(mistake("", &[("KITFLEET_SEVER__LISTEN", "x")]).contains("KITFLEET_SEVER__LISTEN"));
    assert!(mistake("", &[("KITFLEET_SERVER__LISTEN", "x")]).contains("`server.listen`"));
    assert!(mistake("", &[("KITFLEET_SERVER", "x")]).contains("`server`"));
    assert_eq!(
        mistake("", &[("KITFLEET_LOG", "debug")]),
        "configuration: `log`, environment variable KITFLEET_LOG: is a section: set its keys, such as KITFLEET_LOG__FILTER"
    );
    assert!(mistake("[sessions]\nfree_tier_cap = 20", &[]).contains("`sessions.free_tier_cap`"));
    assert!(mistake("[limits]\npage_default = 0", &[]).contains("`limits.page_default`"));
    assert!(mistake("[limits]\nscreenshot_bytes = -1", &[]).contains("`limits.screenshot_bytes`"));
    for (file, key, words) in [
        ("[worker]\ndriver = \"chrome\"", "`worker.driver`", ["`webkit`", "`simulated`", "`none`"]),
        ("[email]\ntransport = \"pigeon\"", "`email.transport`", ["`file`", "`smtp`", "`postmark`"]),
        ("[log]\nformat = \"loud\"", "`log.format`", ["`loud`", "`json`", "`pretty`"]),
        ("[worker]\nwarm_pool = \"some\"", "`worker.warm_pool`", ["must be", "`auto`", "a number"]),
        ("[worker]\nwarm_pool = -1", "`worker.warm_pool`", ["must be", "`auto`", "a number"]),
        ("[worker]\nplacement = \"fill\"", "`worker.placement`", ["`fill`", "`spread`", "`pack`"]),
        ("[sessions]\ndirect_driver = \"x\"", "`sessions.direct_driver`", ["`x`", "`reported`", "`real`"]),
        ("[server]\ncors_origins = [\"*\"]", "`server.cors_origins`", ["\"*\"", "not an origin", "https://"]),
        ("[server]\ncors_origins = \"null\"", "`server.cors_origins`", ["\"null\"", "not an origin", "https://"]),
        ("[live]\norigins = [\"*\"]", "`live.origins`", ["\"*\"", "not an origin", "https://"]),
        ("[live]\norigins = [\"https://a.example/\"]", "`live.origins`", ["a.example/", "not an origin", "https://"]),
        ("[sessions]\nmax_age = \"36501d\"", "`sessions.max_age`", ["36501d", "longer than", "36500d"]),
        ("[billing.prices]\nenterprise = 0", "`billing.prices.enterprise`", ["must be", "1 to", "99999999"]),
        ("[billing.prices]\nsolo_manual = 100000000", "`billing.prices.solo_manual`", ["must be", "1 to", "99999999"]),
        ("[billing.crypto]\nperiod = \"0s\"", "`billing.crypto.period`", ["must be", "longer than", "0"]),
        ("[auth]\nsession_ttl = \"0s\"", "`auth.session_ttl`", ["must be", "longer than", "0"]),
        ("[notifications]\nmax_streams = 0", "`notifications.max_streams`", ["must be", "at least", "1"]),
        ("[recordings]\nmax_streams = 0", "`recordings.max_streams`", ["must be", "at least", "1"]),
        ("[egress]\nprobe_interval = \"0s\"", "`egress.probe_interval`", ["must be", "longer than", "0"]),
        ("[egress]\nprobe_exit_url = \"https://example.com\"", "`egress.probe_exit_url`", ["must be", "http", "URL"]),
    ] {
        let mistake_text = mistake(file, &[]);
        assert!(mistake_text.contains(key) && words.iter().all(|word| mistake_text.contains(word)), "{mistake_text}");
    }
    assert!(mistake("[log]\nfilter = \"info,sqlx=loud\"", &[]).contains("`log.filter`"));
    assert!(mistake("[limits.concurrent_sessions]\ngold = 1", &[]).contains("`limits.concurrent_sessions.gold`"));
    assert!(mistake("[server", &[]).contains(DEFAULT_FILE));
    let secrets = [
        "[mfa]\nencryption_key = 12345678s3cret\n",
        "[mfa]\nencryption_key = \"s3cret\n",
        "[metrics]\nscrape_token = \"a\"\nscrape_token = \"s3cret\"\n",
        "mfa = \"s3cret\"\n",
    ];
    for file in secrets {
        let mistake_text = mistake(file, &[]);
        assert!(!mistake_text.contains("s3cret"), "{mistake_text}");
    }
    assert!(mistake("server = 1", &[]).contains("`server`"));
}

#[test]
fn keys_of_every_area_are_checked_and_named() {
    let file = "[webhooks]\nretry_schedule = [\"1s\", \"2s\"]\n[retention]\nfinished_jobs = \"1d\"\n\
                [billing.prices]\napi_scale = 9900";
    let config = read(file, &[("KITFLEET_WEBHOOKS__RETRY_SCHEDULE", "3s,4s")]).expect("a good configuration");
    let printed = toml::to_string(&config.effective()).expect("TOML");
    assert!(printed.contains(r#"retry_schedule = ["3s", "4s"]"#) && printed.contains("api_scale = 9900"), "{printed}");

    assert!(mistake("[webhooks]\nretries = 1", &[]).contains("`webhooks.retries`, in "));
    assert!(mistake("[limits]\nform_teardown = \"26s\"", &[]).contains("`limits.form_teardown`"));
    assert!(mistake("[billing.prices]\nfree = 1", &[]).contains("`billing.prices.free`"));
    assert!(mistake("", &[("KITFLEET_AUTH__SEND_RATE_PER_MINUTE", "many")]).contains("`auth.send_rate_per_minute`"));
    let short = "aHVudGVyMg==";
    let mistake_text = mistake("", &[("MFA_ENCRYPTION_KEY", short)]);
    assert!(
        mistake_text.contains("`mfa.encryption_key`") && mistake_text.contains(" MFA_ENCRYPTION_KEY:"),
        "{mistake_text}"
    );
    assert!(!mistake_text.contains(short), "{mistake_text}");
}

#[test]
fn identity_providers_have_distinct_names_and_issuers() {
    let file = "[auth.providers.work]\nissuer = \"https://idp.example/\"\nclient_id = \"kitfleet\"";
    let variables = [
        ("KITFLEET_AUTH__PROVIDERS__LOCAL__ISSUER", "http://127.0.0.1:9000"),
        ("KITFLEET_AUTH__PROVIDERS__LOCAL__CLIENT_ID", "kitfleet"),
        ("KITFLEET_AUTH__PROVIDERS__LOCAL__SCOPES", "openid,email"),
    ];
    let config = read(file, &variables).expect("a good configuration");
    let providers = config.auth().providers;
    let seen: Vec<_> = providers.iter().map(|(name, provider)| (name.as_str(), provider)).collect();
    let [("local", local), ("work", work)] = &seen[..] else { panic!("names") };
    assert_eq!((&*work.issuer, &*local.issuer), ("https://idp.example/", "http://127.0.0.1:9000"));
    assert_eq!(work.scopes, ["openid", "email", "profile"]);
    assert_eq!(local.scopes, ["openid", "email"]);
    let printed = toml::to_string(&config.effective()).expect("TOML");
    assert_eq!(read(&printed, &[]).expect("a good configuration").auth.providers.len(), 2);

    for (file, key) in [
        ("[auth.providers.a]\nissuer = \"http://idp.example\"\nclient_id = \"k\"", "`auth.providers.a.issuer`"),
        ("[auth.providers.a]\nissuer = \"https://idp.example?x\"\nclient_id = \"k\"", "`auth.providers.a.issuer`"),
        ("[auth.providers.a]\nissuer = \"https://idp.example\"", "`auth.providers.a`"),
        ("[auth.providers.\"a/b\"]\nissuer = \"https://idp.example\"\nclient_id = \"k\"", "a/b"),
        (
            "[auth.providers.a]\nissuer = \"https://i.example\"\nclient_id = \"k\"\nsecret = \"s\"",
            "`auth.providers.a.secret`",
        ),
    ] {
        let mistake_text = mistake(file, &[]);
        assert!(mistake_text.contains(key), "{mistake_text}");
    }
}

#[test]
fn mail_transport_requires_its_settings() {
    assert!(mistake("[email]\ntransport = \"pigeon\"", &[]).contains("`email.transport`"));
    assert!(mistake("[email]\ntransport = \"smtp\"", &[]).contains("`email.smtp_url`"));
    assert!(
        mistake("[email]\ntransport = \"postmark\"\npostmark_token = \"\"", &[]).contains("`email.postmark_token`")
    );
    assert!(mistake("[email]\nfrom = \"nobody\"", &[]).contains("`email.from`"));
    for url in ["http://u:hunter2@h", "smtp://u:hunter2@h?tls=perhaps"] {
        let mistake_text = mistake(&format!("[email]\ntransport = \"smtp\"\nsmtp_url = \"{url}\""), &[]);
        assert!(mistake_text.contains("`email.smtp_url`") && !mistake_text.contains("hunter2"), "{mistake_text}");
    }
}

#[test]
fn profile_store_requires_its_settings() {
    let mistake_text = |store: &str| mistake(&format!("[profiles.store]\n{store}"), &[]);
    assert!(mistake_text("url = \"https://s3.example/bucket\"").contains("`profiles.store.url`"));
    assert!(mistake_text("url = \"bucket\"").contains("`profiles.store.url`"));
    assert!(mistake_text("url = \"s3://b\"\naccess_key_id = \"k\"").contains("`profiles.store.secret_access_key`"));
    for alone in ["access_key_id = \"k\"", "secret_access_key = \"s\""] {
        assert!(mistake_text(alone).contains("must be set together"));
    }
    let in_clear = "url = \"s3://b\"\nendpoint = \"http://s3.example\"";
    assert!(mistake_text(in_clear).contains("`profiles.store.url`: its server must use https"));
    assert!(mistake_text("url = \"s3://k:s@b\"").contains("`profiles.store.url`"));
    assert!(mistake_text("endpoint = \"s3.example\"").contains("`profiles.store.endpoint`"));
    let store = "[profiles.store]\nurl = \"s3://b/p/q\"\nendpoint = \"http://127.0.0.1:9000\"";
    let stores = read(store, &[]).expect("a good configuration").stores().expect("a place");
    assert!(matches!(stores.place, kitfleet_profiles::PlaceConfig::Objects(_)));
}

/// Contract: configuration 4, 6. These URLs are shown unmasked, so that they must not contain a password.
#[test]
fn printed_urls_have_no_password() {
    let keys = [
        "server.base_url",
        "server.errors_url",
        "email.postmark_url",
        "profiles.store.url",
        "profiles.store.endpoint",
        "billing.card.base_url",
        "billing.crypto.base_url",
        "auth.providers.idp.issuer",
    ];
    for key in keys {
        let (table, name) = key.rsplit_once('.').expect("a key of a table");
        for url in ["https://hunter2@h.example", "https://u:hunter2@h.example", "https://u:hunter2@[h", "hunter2"] {
            let mistake_text = mistake(&format!("[{table}]\n{name} = \"{url}\"\nclient_id = \"k\""), &[]);
            assert!(mistake_text.contains(&format!("`{key}`")) && !mistake_text.contains("hunter2"), "{mistake_text}");
        }
    }
}

#[test]
fn bounds_do_not_contradict_each_other() {
    for (bounds, key) in [
        ("device_state_min_chars = 200", "`limits.device_state_min_chars`"),
        ("max_form_timeout = \"5s\"", "`limits.default_form_timeout`"),
        ("password_min_chars = 2000", "`limits.password_min_chars`"),
    ] {
        let mistake_text = mistake(&format!("[limits]\n{bounds}"), &[]);
        assert!(mistake_text.contains(key) && mistake_text.contains("must not exceed"), "{mistake_text}");
    }
    for setting in [
        "max_token_budget = 2147483648",
        "max_token_budget = 100",
        "default_token_budget = 0",
        "max_steps_per_turn = 0",
        "max_turns = 0",
        "max_transcript_bytes = 0",
        "turn_result_bytes = 0",
        "heartbeat_timeout = \"0s\"",
        "turn_timeout = \"0s\"",
    ] {
        let mistake_text = mistake(&format!("[agents]\n{setting}"), &[]);
        assert!(mistake_text.contains("`agents.") && mistake_text.contains("must"), "{mistake_text}");
    }
}

#[test]
fn removed_setting_is_rejected_with_its_reason() {
    let error = mistake("[limits]\nselector_chars = 100", &[]);
    assert!(error.contains("`limits.selector_chars` was removed") && error.contains("delete the key"), "{error}");
    let error = mistake("", &[("KITFLEET_LIMITS__URL_CHARS", "100")]);
    assert!(
        error.contains("`limits.url_chars` was removed") && error.contains("KITFLEET_LIMITS__URL_CHARS"),
        "{error}"
    );
}

#[test]
fn unreadable_file_error_has_the_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let mistake_text = |path: &Path| Config::read(Some(path), std::iter::empty()).expect_err("no file").to_string();
    assert!(mistake_text(folder.path()).contains("Is a directory"), "{}", mistake_text(folder.path()));
    let missing = folder.path().join("missing.toml");
    assert!(
        mistake_text(&missing).contains("missing.toml") && mistake_text(&missing).contains("No such file"),
        "{}",
        mistake_text(&missing)
    );
}

#[test]
fn default_sender_is_noreply_at_the_service_host() {
    let from = |file: &str| read(file, &[]).expect("a good configuration").effective().email.from.expect("a sender");
    assert_eq!(from("").to_string(), "Kitfleet <no-reply@localhost>");
    let base_url = "[server]\nbase_url = \"https://fleet.example:8443/x\"\n";
    assert_eq!(from(base_url).to_string(), "Kitfleet <no-reply@fleet.example>");
    assert_eq!(from("[email]\nfrom = \"post@ours.example\"").to_string(), "Kitfleet <post@ours.example>");
    assert_eq!(from("[email]\nfrom = \"Us <post@ours.example>\"").to_string(), "Us <post@ours.example>");
}

#[test]
fn empty_token_is_none() {
    let config = read("[metrics]\nscrape_token = \"\"", &[]).expect("a good configuration");
    assert!(config.metrics.scrape_token.is_none());
}

#[test]
fn test_suite_variables_are_not_settings() {
    read("", &[("KITFLEET_TEST_DATABASE_URL", "x"), ("KITFLEET_DATA_DIR", "")]).expect("a good configuration");
}

#[test]
fn list_in_the_environment_is_comma_separated_or_json() {
    let lists = ["10.0.0.0/8, 192.0.2.1", r#"["10.0.0.0/8", "192.0.2.1"]"#];
    for list in lists {
        let config = read("", &[("KITFLEET_SERVER__TRUSTED_PROXIES", list)]).expect("a good configuration");
        let networks: Vec<_> = config.server.trusted_proxies.iter().map(ToString::to_string).collect();
        assert_eq!(networks, ["10.0.0.0/8", "192.0.2.1/32"]);
    }
}

#[test]
fn secrets_are_masked_and_numeric_ones_are_accepted() {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let variables = [
        ("METRICS_SCRAPE_TOKEN", "00123"),
        ("DATABASE_URL", "postgres://u:hunter2@h/d"),
        ("REDIS_URL", "redis://:hunter2@h"),
        ("MFA_ENCRYPTION_KEY", key),
        ("KITFLEET_EMAIL__SMTP_URL", "smtps://u:hunter2@h:465"),
        ("KITFLEET_AUTH__PROVIDERS__IDP__ISSUER", "https://idp.example"),
        ("KITFLEET_AUTH__PROVIDERS__IDP__CLIENT_ID", "kitfleet"),
        ("KITFLEET_AUTH__PROVIDERS__IDP__CLIENT_SECRET", "hunter2"),
        ("KITFLEET_EMAIL__POSTMARK_TOKEN", "hunter2"),
        ("KITFLEET_PROFILES__STORE__URL", "s3://bucket/prefix"),
        ("KITFLEET_PROFILES__STORE__ACCESS_KEY_ID", "kitfleet"),
        ("KITFLEET_PROFILES__STORE__SECRET_ACCESS_KEY", "hunter2"),
        ("KITFLEET_BILLING__CARD__SECRET_KEY", "hunter2"),
        ("KITFLEET_BILLING__CARD__WEBHOOK_SECRET", "hunter2"),
        ("KITFLEET_BILLING__CRYPTO__API_KEY", "hunter2"),
        ("KITFLEET_BILLING__CRYPTO__IPN_SECRET", "hunter2"),
    ];
    let config = read("", &variables).expect("a good configuration");
    assert_eq!(config.metrics.scrape_token.as_ref().map(Secret::reveal), Some("00123"));
    for shown in [format!("{config:?}"), toml::to_string(&config.effective()).expect("TOML")] {
        assert!(!shown.contains("00123") && !shown.contains("hunter2") && !shown.contains(key), "{shown}");
    }
    assert!(!mistake("", &[("DATABASE_URL", "hunter2")]).contains("hunter2"));
}

#[test]
fn printed_config_can_be_loaded() {
    let printed = toml::to_string(&Config::default().effective()).expect("TOML");
    let again = read(&printed, &[]).expect("a good configuration");
    assert_eq!(toml::to_string(&again.effective()).expect("TOML"), {
        let absolute = Config { data_dir: again.data_dir.clone(), ..Config::default() };
        toml::to_string(&absolute.effective()).expect("TOML")
    });
}

/// Kubernetes describes each service of the namespace in the environment of each pod.
#[test]
fn variables_of_kubernetes_services_are_ignored() {
    let of_a_service = [
        ("KITFLEET_SERVICE_HOST", "10.0.0.1"),
        ("KITFLEET_SERVICE_PORT", "80"),
        ("KITFLEET_SERVICE_PORT_HTTP", "80"),
        ("KITFLEET_PORT", "tcp://10.0.0.1:80"),
        ("KITFLEET_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("KITFLEET_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("KITFLEET_API_SERVICE_HOST", "10.0.0.1"),
        ("KITFLEET_API_PORT_80_TCP_PROTO", "tcp"),
    ];
    assert!(read("", &of_a_service).is_ok());
    for (name, value) in [("KITFLEET_PORT", "80"), ("KITFLEET_SERVER__SERVICE_HOST", "x"), ("KITFLEET_PORT_X_TCP", "x")]
    {
        assert!(mistake("", &[(name, value)]).contains(name), "{name}");
    }
}

/// A template cannot know whether an address needs brackets.
#[test]
fn live_listen_takes_an_ipv6_address_without_brackets() {
    let listens_on =
        |text: &str| read("", &[("KITFLEET_WORKER__LIVE_LISTEN", text)]).map(|read| read.worker.live_listen);
    for text in ["fd00:10:244::5:7401", "[fd00:10:244::5]:7401"] {
        assert_eq!(listens_on(text).expect("an address").to_string(), "[fd00:10:244::5]:7401");
    }
    assert_eq!(listens_on("10.0.0.7:7401").expect("an address").to_string(), "10.0.0.7:7401");
    for text in ["10.0.0.7", "worker:7401", "fd00::zz:1", ":7401", "10.0.0.7:99999"] {
        assert!(mistake("", &[("KITFLEET_WORKER__LIVE_LISTEN", text)]).contains("`worker.live_listen`"), "{text}");
    }
}
