use serde_json::{Value, json};

use super::*;

fn fields(parsed: Result<Emulation, Invalid>) -> Vec<String> {
    parsed.err().map(|Invalid(errors)| errors).into_iter().flatten().map(|error| error.field).collect()
}

fn header(name: &str, value: &str, origins: Option<&[&str]>) -> ExtraHeader {
    let origins = origins.map(|origins| origins.iter().map(|origin| (*origin).to_owned()).collect());
    ExtraHeader { name: name.to_owned(), value: value.to_owned(), origins }
}

fn with_headers(headers: Vec<ExtraHeader>) -> Result<Emulation, Invalid> {
    Emulation::parse(EmulationParams { extra_headers: Some(headers), ..EmulationParams::default() })
}

fn with_hosts(hosts: &[&str]) -> Result<Emulation, Invalid> {
    let block = Block { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..Block::default() };
    Emulation::parse(EmulationParams { block: Some(block), ..EmulationParams::default() })
}

#[test]
fn locale_is_a_language_tag_in_the_usual_case() {
    for (text, tag) in [
        ("de", "de"),
        ("DE-ch", "de-CH"),
        ("zh-hant-tw", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("sl-rozaj-biske", "sl-rozaj-biske"),
        ("de-1996", "de-1996"),
        ("gsw", "gsw"),
    ] {
        assert_eq!(parse_locale(text).as_deref(), Ok(tag), "{text}");
    }
    for text in ["", "d", "de_CH", "de-", "-de", "deutsch", "de-CH-u-co-phonebk", "de CH", "de-C", "dé", "de-CH\n"] {
        assert!(parse_locale(text).is_err(), "{text:?}");
    }
    assert!(parse_locale(&format!("de{}", "-abcdefgh".repeat(4))).is_err());
}

#[test]
fn accept_language_is_the_tag_and_then_the_language() {
    let of = |locale: Option<&str>| Emulation { locale: locale.map(str::to_owned), ..Emulation::default() };
    assert_eq!(of(None).accept_language(), "en-US,en;q=0.9");
    assert_eq!(of(Some("zh-Hant-TW")).accept_language(), "zh-Hant-TW,zh;q=0.9");
    assert_eq!(of(Some("de")).accept_language(), "de");
}

#[test]
fn time_zone_is_a_name_of_the_database() {
    assert_eq!(parse_timezone("europe/zurich").as_deref(), Ok("Europe/Zurich"));
    assert_eq!(parse_timezone("UTC").as_deref(), Ok("UTC"));
    for text in ["", "Europe/Atlantis", "+02:00", "../etc/passwd", "/etc/localtime", ":UTC", "UTC0\n", "CET-1CEST"] {
        assert!(parse_timezone(text).is_err(), "{text:?}");
    }
}

#[test]
fn position_is_on_the_globe() {
    let of = |latitude, longitude, accuracy| {
        let geolocation = Some(Geolocation { latitude, longitude, accuracy });
        fields(Emulation::parse(EmulationParams { geolocation, ..EmulationParams::default() }))
    };
    assert!(of(-90.0, 180.0, 0.0).is_empty());
    assert_eq!(of(90.1, 0.0, 0.0), ["geolocation.latitude"]);
    assert_eq!(of(0.0, -180.1, -1.0), ["geolocation.longitude", "geolocation.accuracy"]);
    assert_eq!(of(f64::NAN, 0.0, f64::INFINITY), ["geolocation.latitude", "geolocation.accuracy"]);
}

#[test]
fn header_is_a_token_with_a_printable_value() {
    assert!(with_headers(vec![header("X-Preview", "a b c~", None), header("x", "", None)]).is_ok());
    for name in ["", "a b", "a:b", "ä", "a\r\nb", "(a)"] {
        assert_eq!(fields(with_headers(vec![header(name, "a", None)])), ["extra_headers.0.name"], "{name:?}");
    }
    for value in ["a\r\nHost: b", "a\nb", "a\tb", "a\0b", "ä", "\u{7f}"] {
        assert_eq!(fields(with_headers(vec![header("a", value, None)])), ["extra_headers.0.value"], "{value:?}");
    }
}

#[test]
fn header_of_the_browser_is_refused() {
    for name in [
        "Host",
        "cookie",
        "CONNECTION",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "content-length",
    ] {
        let header = header(name, "a", Some(&["https://example.com"]));
        assert_eq!(fields(with_headers(vec![header])), ["extra_headers.0.name"], "{name}");
    }
}

#[test]
fn credentials_need_origins() {
    for name in ["Authorization", "proxy-authorization"] {
        assert_eq!(fields(with_headers(vec![header(name, "a", None)])), ["extra_headers.0.origins"], "{name}");
        assert!(with_headers(vec![header(name, "a", Some(&["https://example.com"]))]).is_ok(), "{name}");
    }
}

#[test]
fn origin_is_normalized() {
    let parsed = with_headers(vec![header("a", "b", Some(&["HTTPS://Example.com:443/", "http://a.example:8080"]))]);
    let origins = parsed.expect("valid origins").extra_headers[0].origins.clone();
    assert_eq!(origins, Some(vec!["https://example.com".to_owned(), "http://a.example:8080".to_owned()]));
    for origin in
        ["", "example.com", "ftp://example.com", "https://example.com/a", "https://a@example.com", "https://a/?b", "*"]
    {
        let parsed = with_headers(vec![header("a", "b", Some(&[origin]))]);
        assert_eq!(fields(parsed), ["extra_headers.0.origins.0"], "{origin:?}");
    }
    assert_eq!(fields(with_headers(vec![header("a", "b", Some(&[]))])), ["extra_headers.0.origins"]);
}

#[test]
fn header_is_set_once_for_an_origin() {
    let one: Option<&[&str]> = Some(&["https://a.example"]);
    let other: Option<&[&str]> = Some(&["https://b.example"]);
    assert!(with_headers(vec![header("a", "1", one), header("A", "2", other)]).is_ok());
    for (first, second) in [(one, one), (None, one), (one, None), (None, None)] {
        let parsed = with_headers(vec![header("a", "1", first), header("A", "2", second)]);
        assert_eq!(fields(parsed), ["extra_headers.1.name"]);
    }
}

#[test]
fn headers_are_few_and_small() {
    let many = |count: usize| (0..count).map(|at| header(&format!("a{at}"), "b", None)).collect();
    assert!(with_headers(many(20)).is_ok());
    assert_eq!(fields(with_headers(many(21))), ["extra_headers"]);
    assert!(with_headers(vec![header("a", &"b".repeat(4_095), None)]).is_ok());
    assert_eq!(fields(with_headers(vec![header("a", &"b".repeat(4_096), None)])), ["extra_headers"]);
}

#[test]
fn blocked_host_is_normalized() {
    let parsed = with_hosts(&["Ads.Example.com", "ads.example.com", "bücher.example", "192.0.2.1", "[2001:db8::1]"]);
    let hosts = parsed.expect("valid hosts").block.hosts;
    assert_eq!(hosts, ["ads.example.com", "xn--bcher-kva.example", "192.0.2.1", "[2001:db8::1]"]);
    for host in ["", "*.example.com", "*", "https://a.example", "a.example:80", "a/b", "a..b", ".a", "a b"] {
        assert_eq!(fields(with_hosts(&[host])), ["block.hosts.0"], "{host:?}");
    }
    assert!(with_hosts(&["a.example"; 100]).is_ok());
    assert_eq!(fields(with_hosts(&["a.example"; 101])), ["block.hosts"]);
}

#[test]
fn null_in_block_is_empty() {
    let block: Block = serde_json::from_value(json!({"resource_types": null, "hosts": ["a"]})).expect("a block");
    assert_eq!(block, Block { resource_types: Vec::new(), hosts: vec!["a".to_owned()] });
}

/// Values of headers are in nothing that is stored, shown or logged.
#[test]
fn values_of_headers_can_be_removed_and_restored() {
    let whole = with_headers(vec![header("a", "secret", None), header("b", "", None)]).expect("valid headers");
    let mut emulation = whole.clone();
    let values = emulation.take_header_values().expect("values");
    let stored = serde_json::to_value(&emulation).expect("JSON");
    let state = serde_json::to_value(whole.state()).expect("JSON");
    for text in [stored.to_string(), state.to_string(), format!("{whole:?}")] {
        assert!(!text.contains("secret"), "{text}");
    }
    assert_eq!(state["extra_headers"][0], json!({"name": "a", "origins": Value::Null}));
    let mut restored: Emulation = serde_json::from_value(stored).expect("the same type");
    restored.restore_header_values(values);
    assert_eq!(restored, whole);
    assert_eq!(Emulation::default().take_header_values(), None);
}

#[test]
fn all_errors_are_reported_at_once() {
    let params = EmulationParams {
        locale: Some("?".to_owned()),
        timezone: Some("?".to_owned()),
        extra_headers: Some(vec![header("Host", "a", None)]),
        block: Some(Block { hosts: vec!["*".to_owned()], ..Block::default() }),
        ..EmulationParams::default()
    };
    let expected = ["locale", "timezone", "extra_headers.0.name", "block.hosts.0"];
    assert_eq!(fields(Emulation::parse(params)), expected);
}
