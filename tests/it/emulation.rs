//! Emulation of sessions with the simulated driver (contract: sessions 28 to 38).

use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use sqlx::Executor as _;

use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client};

const SECRET: &str = "secret-of-the-header";

fn default_emulation() -> Value {
    json!({
        "locale": "en-US", "timezone": null, "geolocation": null, "color_scheme": "light", "orientation": "portrait",
        "extra_headers": [], "offline": false, "block": {"resource_types": [], "hosts": []},
    })
}

/// In another form than that in which they are returned.
fn requested() -> Value {
    json!({
        "locale": "de-ch", "timezone": "europe/zurich",
        "geolocation": {"latitude": 47.3769, "longitude": 8.5417, "accuracy": 20}, "color_scheme": "dark",
        "orientation": "landscape",
        "extra_headers": [{"name": "Authorization", "value": SECRET, "origins": ["HTTPS://Example.com:443/"]}],
        "offline": true, "block": {"resource_types": ["image", "media", "image"], "hosts": ["Ads.Example.com"]},
    })
}

fn shown() -> Value {
    json!({
        "locale": "de-CH", "timezone": "Europe/Zurich",
        "geolocation": {"latitude": 47.3769, "longitude": 8.5417, "accuracy": 20.0}, "color_scheme": "dark",
        "orientation": "landscape", "extra_headers": [{"name": "Authorization", "origins": ["https://example.com"]}],
        "offline": true, "block": {"resource_types": ["image", "media"], "hosts": ["ads.example.com"]},
    })
}

async fn emulation_of(client: &Client, session: &str) -> Value {
    client.get(&format!("/v1/sessions/{session}")).await.expect(200).body["emulation"].clone()
}

async fn change(client: &Client, session: &str, body: Value) -> Answer {
    client.patch(&format!("/v1/sessions/{session}/emulation"), body).await
}

/// Contract: sessions 28, 34. It is complete and in the usual form.
#[tokio::test]
async fn session_shows_its_emulation_without_header_values() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let plain = client.post("/v1/sessions", json!({})).await.expect(201).body;
    assert_eq!(plain["emulation"], default_emulation());

    let created = client.post("/v1/sessions", requested()).await.expect(201).body;
    assert_eq!(created["emulation"], shown());
    let id = created["id"].as_str().expect("an id");
    assert_eq!(client.get(&format!("/v1/sessions/{id}")).await.expect(200).body, created);
    let list = client.get("/v1/sessions").await.expect(200).body;
    assert_eq!(list["data"][0]["emulation"], shown());
    assert_eq!(list["data"][1]["emulation"], default_emulation());
    app.stop().await;
}

/// Contract: sessions 28; agents 1; profiles 16.
#[tokio::test]
async fn agent_session_and_launch_take_an_emulation() {
    let app = App::simulated().start().await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let agent = client.post("/v1/agent-sessions", requested()).await.expect(201).body;
    let driver = agent["session_id"].as_str().expect("an id");
    assert_eq!(emulation_of(&client, driver).await, shown());

    let profile = client.profile().await;
    let launched = client.post(&format!("/v1/profiles/{profile}/launch"), requested()).await.expect(201).body;
    assert_eq!(launched["emulation"], shown());

    let wrong = json!({"timezone": "Europe/Atlantis"});
    client.post("/v1/agent-sessions", wrong.clone()).await.invalid("timezone");
    client.post(&format!("/v1/profiles/{profile}/launch"), wrong).await.invalid("timezone");
    app.stop().await;
}

/// Contract: sessions 29 to 33, 36. No row is left.
#[tokio::test]
async fn invalid_emulation_is_rejected() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let header = |name: &str, value: &str| json!({"extra_headers": [{"name": name, "value": value}]});
    let headers = |count: usize| {
        let headers: Vec<_> = (0..count).map(|at| json!({"name": format!("a{at}"), "value": "b"})).collect();
        json!({"extra_headers": headers})
    };
    let refused = [
        (json!({"locale": "german"}), "locale"),
        (json!({"locale": "de_CH"}), "locale"),
        (json!({"locale": 1}), "locale"),
        (json!({"timezone": "Europe/Atlantis"}), "timezone"),
        (json!({"timezone": "+02:00"}), "timezone"),
        (json!({"timezone": ""}), "timezone"),
        (json!({"geolocation": {"latitude": 91, "longitude": 0, "accuracy": 0}}), "geolocation.latitude"),
        (json!({"geolocation": {"latitude": 0, "longitude": -181, "accuracy": 0}}), "geolocation.longitude"),
        (json!({"geolocation": {"latitude": 0, "longitude": 0, "accuracy": -1}}), "geolocation.accuracy"),
        (json!({"geolocation": {"latitude": 0, "longitude": 0}}), "geolocation.accuracy"),
        (json!({"color_scheme": "blue"}), "color_scheme"),
        (json!({"orientation": "upside_down"}), "orientation"),
        (headers(21), "extra_headers"),
        (header("a", &"b".repeat(4_096)), "extra_headers"),
        (header("a b", "c"), "extra_headers.0.name"),
        (header("", "c"), "extra_headers.0.name"),
        (header("Host", "c"), "extra_headers.0.name"),
        (header("cookie", "c"), "extra_headers.0.name"),
        (header("Transfer-Encoding", "c"), "extra_headers.0.name"),
        (header("a", "b\r\nc: d"), "extra_headers.0.value"),
        (header("a", "b\u{0}"), "extra_headers.0.value"),
        (header("Authorization", "c"), "extra_headers.0.origins"),
        (header("proxy-authorization", "c"), "extra_headers.0.origins"),
        (json!({"extra_headers": [{"name": "a"}]}), "extra_headers.0.value"),
        (json!({"extra_headers": [{"name": "a", "value": "b", "origins": []}]}), "extra_headers.0.origins"),
        (
            json!({"extra_headers": [{"name": "a", "value": "b", "origins": ["https://example.com/a"]}]}),
            "extra_headers.0.origins.0",
        ),
        (json!({"extra_headers": [{"name": "a", "value": "b"}, {"name": "A", "value": "c"}]}), "extra_headers.1.name"),
        (json!({"offline": "yes"}), "offline"),
        (json!({"block": {"resource_types": ["document"]}}), "block.resource_types.0"),
        (json!({"block": {"hosts": ["*.example.com"]}}), "block.hosts.0"),
        (json!({"block": {"hosts": ["https://example.com"]}}), "block.hosts.0"),
        (json!({"block": {"hosts": vec!["example.com"; 101]}}), "block.hosts"),
    ];
    for (body, field) in &refused {
        client.post("/v1/sessions", body.clone()).await.invalid(field);
    }
    assert_eq!(app.count("select count(*) from sessions").await, 0);

    let session = client.session().await;
    for (body, field) in refused.iter().filter(|(body, _)| body.get("locale").or(body.get("timezone")).is_none()) {
        change(&client, &session, body.clone()).await.invalid(field);
    }
    assert_eq!(app.intents(&session).await.len(), 1, "only the open");
    assert_eq!(emulation_of(&client, &session).await, default_emulation());

    // The bounds themselves are valid, and null is the same as absent.
    for body in [headers(20), header("a", &"b".repeat(4_095)), json!({"block": {"hosts": vec!["example.com"; 100]}})] {
        change(&client, &session, body).await.expect(200);
    }
    let nulls = json!({"locale": null, "timezone": null, "geolocation": null, "extra_headers": null, "offline": null,
                       "block": {"hosts": null, "resource_types": null}});
    let (_, other) = app.customer(Tier::Enterprise).await;
    let created = other.post("/v1/sessions", nulls).await.expect(201).body;
    assert_eq!(created["emulation"], default_emulation());
    app.stop().await;
}

/// Contract: sessions 37, 38. An absent member keeps its value, and null is the default.
#[tokio::test]
async fn change_sets_the_members_of_its_body() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session_with(requested()).await;

    let changed = change(&client, &session, json!({"color_scheme": "light", "offline": false})).await.expect(200).body;
    let mut expected = shown();
    expected["color_scheme"] = "light".into();
    expected["offline"] = false.into();
    assert_eq!(changed, expected);
    assert_eq!(emulation_of(&client, &session).await, expected);

    let headers = json!([{"name": "X-One", "value": "1"}, {"name": "X-Two", "value": ""}]);
    let changed = change(&client, &session, json!({"extra_headers": headers})).await.expect(200).body;
    expected["extra_headers"] = json!([{"name": "X-One", "origins": null}, {"name": "X-Two", "origins": null}]);
    assert_eq!(changed, expected);

    let nulls = json!({
        "geolocation": null, "color_scheme": null, "orientation": null, "extra_headers": null, "offline": null, "block": null,
    });
    let changed = change(&client, &session, nulls).await.expect(200).body;
    let mut expected = default_emulation();
    expected["locale"] = "de-CH".into();
    expected["timezone"] = "Europe/Zurich".into();
    assert_eq!(changed, expected);
    assert_eq!(emulation_of(&client, &session).await, expected);
    assert_eq!(client.status(&session).await, "ready");

    // Language and time zone are fixed: they are unknown members here.
    change(&client, &session, json!({})).await.invalid("body");
    change(&client, &session, json!({"locale": "fr", "timezone": "UTC"})).await.invalid("body");
    app.stop().await;
}

/// Contract: sessions 13, 14, 38; usage 7.
#[tokio::test]
async fn change_claims_the_session_and_is_not_counted() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let session = client.session().await;
    change(&client, &session, json!({"offline": true})).await.expect(200);
    assert_eq!(app.count("select count(*) from usage_counts where record <> 'session_minute'").await, 0);

    let waiting = client.waiting(&session, 60_000);
    app.busy(&session).await;
    change(&client, &session, json!({"offline": false})).await.problem(409, "conflict");
    client.delete(&format!("/v1/sessions/{session}")).await.expect(204);
    waiting.await.expect("a task").problem(410, "session-destroyed");
    change(&client, &session, json!({"offline": false})).await.problem(410, "session-destroyed");
    let after = emulation_of(&client, &session).await;
    assert_eq!(after["offline"], true, "the emulation of an ended session stays");
    app.stop().await;
}

/// Records what intents hold from their insertion to their end.
const HELD: &str = "
    create table held (intent uuid, request text, sealed bytea, status text);
    create function note_held() returns trigger language plpgsql as $$
    begin
        insert into held values (new.id, new.request::text, new.sealed, new.status);
        return new;
    end $$;
    create trigger note_held after insert or update on intents for each row execute function note_held();";

/// Contract: sessions 34. The seal lasts from the request to the browser.
#[tokio::test]
async fn header_values_are_sealed_and_then_gone() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    app.database.pool.execute(HELD).await.expect("a trigger");
    let session = client.session_with(requested()).await;
    let headers = json!([{"name": "X-Secret", "value": SECRET}]);
    change(&client, &session, json!({"extra_headers": headers})).await.expect(200);

    assert_eq!(app.tables_with(SECRET).await, Vec::<String>::new());
    let sealed: Vec<(String, bool)> =
        sqlx::query_as("select distinct status, sealed is not null from held order by 1, 2")
            .fetch_all(&app.database.pool)
            .await
            .expect("what intents held");
    assert!(sealed.contains(&("running".to_owned(), true)), "{sealed:?}");
    assert!(!sealed.contains(&("done".to_owned(), true)), "{sealed:?}");
    let opened: i64 = sqlx::query_scalar("select count(*) from intents where session_id = $1 and sealed is not null")
        .bind(uuid_of(&session))
        .fetch_one(&app.database.pool)
        .await
        .expect("a count");
    assert_eq!(opened, 0);
    assert!(!app.log(0).contains(SECRET), "a log has the value of a header");
    app.stop().await;
}
