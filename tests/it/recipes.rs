//! Recipes of agent sessions (contract: recipes). Exported programs are tested in [`programs`].

mod programs;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_domain::vault::Vault;
use kitfleet_types::ids::{AccountId, StepId, TurnId};
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::people::ENCRYPTION_KEY;
use crate::support::records::uuid_of;
use crate::support::{Answer, App, Client, at_once, members, stable, unknown_id};

struct StepRow {
    command: Value,
    status: &'static str,
    shown: Vec<(String, String)>,
}

fn done(command: Value, shown: &[(&str, &str)]) -> StepRow {
    let shown = shown.iter().map(|(selector, is)| ((*selector).to_owned(), (*is).to_owned())).collect();
    StepRow { command, status: "done", shown }
}

fn css(selector: &str) -> Value {
    json!({"Css": selector})
}

fn words(words: &str) -> Value {
    json!({"Described": {"role": null, "words": words}})
}

impl App {
    async fn turn(&self, agent: &str, kind: &str, steps: &[StepRow]) {
        let key = STANDARD.decode(ENCRYPTION_KEY).expect("base64").try_into().expect("32 bytes");
        let vault = Vault::new(key, &[]);
        let turn = TurnId::generate();
        sqlx::query(
            "insert into agent_turns (id, agent_session_id, worker_id, status, sealed_said, kind, reply_channel, request_id)
             values ($1, $2, $3, 'done', '', $4, '', '')",
        )
        .bind(turn.as_uuid())
        .bind(uuid_of(agent))
        .bind(Uuid::now_v7())
        .bind(kind)
        .execute(&self.database.pool)
        .await
        .expect("a turn");
        for (position, step) in (1..).zip(steps) {
            let id = StepId::generate();
            let seal = |value: &Value| vault.seal("agents", &id.to_string(), value.to_string().as_bytes());
            let shown: Vec<_> = step.shown.iter().map(|(selector, description)| {
                json!({"selector": selector, "description": description, "fingerprint": "", "origin": ""})
            }).collect();
            sqlx::query(
                "insert into agent_steps
                     (id, turn_id, agent_session_id, position, kind, status, operation_id, sealed_wish, sealed_shown)
                 values ($1, $2, $3, $4, 'tap', $5, $6, $7, $8)",
            )
            .bind(id.as_uuid())
            .bind(turn.as_uuid())
            .bind(uuid_of(agent))
            .bind(position)
            .bind(step.status)
            .bind(Uuid::now_v7())
            .bind(seal(&step.command))
            .bind((!shown.is_empty()).then(|| seal(&shown.into())))
            .execute(&self.database.pool)
            .await
            .expect("a step");
        }
    }

    async fn sign_in_turn(&self, agent: &str) {
        let steps = [
            done(json!({"Navigate": {"url": "https://shop.example.com/login?from=mail"}}), &[]),
            done(
                json!({"Type": {"target": words("E-mail"), "value": "ada@example.com"}}),
                &[("#email", "textbox \"E-mail\"")],
            ),
            done(json!({"Type": {"target": words("Password"), "value": SECRET}}), &[("#pw", "textbox \"Password\"")]),
            done(json!({"Tap": {"target": words("Sign in")}}), &[("#go", "button \"Sign in\"")]),
        ];
        self.turn(agent, "plan", &steps).await;
    }

    /// Recipes require a deployment key.
    async fn with_recipes() -> Self {
        Self::simulated().with_second_factors().start().await
    }
}

const SECRET: &str = "correct-horse-battery";

impl Client {
    async fn recipe(&self, agent: &str, label: &str) -> Answer {
        self.post("/v1/recipes", json!({"agent_session_id": agent, "label": label})).await
    }

    async fn recipe_of(&self, agent: &str) -> String {
        self.recipe(agent, "Sign in").await.expect(201).body["id"].as_str().expect("an id").to_owned()
    }

    async fn suggestion(&self, agent: &str) -> Answer {
        self.get(&format!("/v1/agent-sessions/{agent}/recipe-suggestion")).await
    }

    async fn get_for(&self, owner: AccountId, path: &str) -> Answer {
        self.send(self.request(reqwest::Method::GET, path).header("x-service-account", owner.to_string())).await
    }
}

/// Contract: recipes 1, 2, 7, 8, 11.
#[tokio::test]
async fn recipe_contains_the_steps_without_typed_text() {
    let app = App::with_recipes().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    app.sign_in_turn(&agent).await;
    let items = json!([
        {"name": "title", "target": words("heading"), "attribute": null, "list": false},
        {"name": "links", "target": css("a"), "attribute": "href", "list": true},
    ]);
    let more = [
        done(json!({"Press": {"key": "Enter"}}), &[]),
        done(json!({"Select": {"target": words("Size"), "option": "XL"}}), &[("#size", "combobox \"Size\"")]),
        done(json!({"Scroll": {"delta_x": 0, "delta_y": 600, "target": null}}), &[]),
        done(json!({"Scroll": {"delta_x": 5, "delta_y": 0, "target": css("#box")}}), &[]),
        done(json!({"Wait": {"condition": {"Visible": {"Described": {"role": "heading", "words": "Done"}}}}}), &[]),
        done(json!({"Wait": {"condition": {"Hidden": css(".spinner")}}}), &[]),
        done(json!({"Wait": {"condition": {"Url": "/basket$"}}}), &[]),
        done(json!({"Wait": {"condition": {"Time": {"ms": 500}}}}), &[]),
        done(json!({"Capture": {"capture": "screenshot"}}), &[]),
        done(json!({"Extract": {"items": items}}), &[("h1", "heading \"Hello\"")]),
        done(json!("Back"), &[]),
        done(json!("Reload"), &[]),
    ];
    app.turn(&agent, "plan", &more).await;

    let body = json!({"agent_session_id": agent, "label": "  Sign in\t", "description": "As Ada"});
    let created = client.post("/v1/recipes", body).await.expect(201);
    let recipe = created.body;
    let id = recipe["id"].as_str().expect("an id");
    assert_eq!(created.headers["location"], format!("/v1/recipes/{id}"));
    assert_eq!((&recipe["account_id"], &recipe["agent_session_id"]), (&json!(account), &json!(agent)));
    assert_eq!(recipe["updated_at"], recipe["created_at"]);

    let read = client.get(&format!("/v1/recipes/{id}")).await.expect(200).body;
    insta::assert_json_snapshot!("recipe", stable(&read));
    let mut without = read.clone();
    without.as_object_mut().expect("an object").remove("intent_log");
    assert_eq!(without, recipe);
    let listed = client.get("/v1/recipes").await.expect(200).body;
    assert_eq!(listed, json!({"data": [recipe], "has_more": false, "next_cursor": null}));

    let rows = app.audited(account, "recipe.created").await;
    let payload = json!({"label": "Sign in", "agent_session_id": agent, "intent_count": 16});
    assert_eq!(rows.iter().map(|row| &row.payload).collect::<Vec<_>>(), [&payload]);
    assert_eq!((rows[0].actor_type.as_str(), rows[0].target_resource_id.as_deref()), ("customer", Some(id)));
    for secret in [SECRET, "ada@example.com", "#pw"] {
        assert_eq!(app.tables_with(secret).await, <[String; 0]>::default(), "{secret}");
    }
    assert!(!read.to_string().contains(SECRET));
    app.stop().await;
}

/// Contract: recipes 5.
#[tokio::test]
async fn recipe_contains_only_successful_steps_of_ended_plans() {
    let app = App::with_recipes().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let empty = client.recipe(&agent, "Nothing yet").await.expect(201).body;
    assert_eq!(empty["intent_count"], 0);
    let path = format!("/v1/recipes/{}", empty["id"].as_str().expect("an id"));
    assert_eq!(client.get(&path).await.expect(200).body["intent_log"], json!([]));

    let press = |key: &str, status| StepRow { status, ..done(json!({"Press": {"key": key}}), &[]) };
    app.turn(&agent, "plan", &[press("a", "done"), press("b", "failed"), press("c", "skipped")]).await;
    app.turn(&agent, "clarify", &[press("d", "done"), press("e", "skipped")]).await;
    app.turn(&agent, "refuse", &[]).await;
    app.turn(&agent, "plan", &[press("f", "done"), press("g", "needs_approval"), press("h", "planned")]).await;
    app.turn(&agent, "plan", &[press("i", "done"), press("j", "running")]).await;
    let of = client.recipe_of(&agent).await;
    let log = client.get(&format!("/v1/recipes/{of}")).await.expect(200).body["intent_log"].clone();
    assert_eq!(log, json!(["a", "f", "i"].map(|key| json!({"kind": "press", "key": key}))));
    assert_eq!(client.get(&path).await.expect(200).body["intent_log"], json!([]));
    app.stop().await;
}

/// Contract: recipes 2.
#[tokio::test]
async fn label_and_description_have_length_limits() {
    let app = App::with_recipes().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let make = async |label: Value, description: Value| {
        client.post("/v1/recipes", json!({"agent_session_id": agent, "label": label, "description": description})).await
    };
    for label in [json!(""), json!(" \t\n"), json!("x".repeat(121)), json!(7), json!(null)] {
        make(label, json!(null)).await.invalid("label");
    }
    make(json!("x"), json!("é".repeat(2_001))).await.invalid("description");
    client.post("/v1/recipes", json!({"agent_session_id": agent})).await.invalid("label");
    client.post("/v1/recipes", json!({"label": "x"})).await.invalid("agent_session_id");
    let longest = make(json!(format!(" {} ", "é".repeat(120))), json!("é".repeat(2_000))).await.expect(201).body;
    assert_eq!((&longest["label"], &longest["description"]), (&json!("é".repeat(120)), &json!("é".repeat(2_000))));
    assert_eq!(make(json!("x"), json!(null)).await.expect(201).body["description"], "");
    app.stop().await;
}

/// Contract: recipes 3, 11. Admins of a team have access to its agent sessions.
#[tokio::test]
async fn recipe_of_an_inaccessible_agent_session_is_404() {
    let app = App::with_recipes().await;
    let (owner, owning) = app.customer(Tier::Enterprise).await;
    let agent = owning.agent().await;
    app.sign_in_turn(&agent).await;
    let (admin, acting) = app.customer(Tier::Enterprise).await;
    let (member, reading) = app.customer(Tier::Enterprise).await;
    let stranger = app.client().await;
    app.join_team(owner, admin, "admin").await;
    app.join_team(owner, member, "member").await;

    for (client, of) in [
        (&stranger, agent.clone()),
        (&reading, agent.clone()),
        (&owning, unknown_id("agt")),
        (&owning, agent.to_uppercase()),
        (&owning, agent.replace("agt_", "ses_")),
        (&owning, String::new()),
    ] {
        let answer = client.recipe(&of, "Mine").await.problem(404, "not-found");
        assert_eq!(answer.body["detail"], "there is no agent session with this id", "{of}");
    }
    for client in [&stranger, &reading] {
        client.suggestion(&agent).await.problem(404, "not-found");
    }

    let recipe = acting.recipe(&agent, "Ours").await.expect(201).body;
    assert_eq!((&recipe["account_id"], &recipe["intent_count"]), (&json!(admin), &json!(4)));
    assert_eq!(app.audited(admin, "recipe.created").await.len(), 1);
    assert_eq!(app.audited(owner, "recipe.created").await.len(), 0);
    // The recipe belongs to its creator, whatever the account header says.
    let path = format!("/v1/recipes/{}", recipe["id"].as_str().expect("an id"));
    acting.get_for(owner, &path).await.expect(200);
    assert_eq!(acting.get_for(owner, "/v1/recipes").await.expect(200).body["data"][0], recipe);
    owning.get(&path).await.problem(404, "not-found");
    owning.delete(&path).await.problem(404, "not-found");
    assert_eq!(owning.get("/v1/recipes").await.expect(200).body["data"], json!([]));

    // A suggestion is available to callers who could make the recipe, and to the agent session's admins with the account header.
    let suggested = owning.suggestion(&agent).await.expect(200).body;
    assert_eq!(acting.suggestion(&agent).await.expect(200).body, suggested);
    let path = format!("/v1/agent-sessions/{agent}/recipe-suggestion");
    assert_eq!(acting.get_for(owner, &path).await.expect(200).body, suggested);
    reading.get_for(owner, &path).await.problem(403, "forbidden");
    // Admin rights are not transitive: an admin of an admin's account has no access to the owner's agent sessions.
    app.join_team(admin, member, "admin").await;
    reading.get_for(admin, &path).await.problem(404, "not-found");

    app.execute("update accounts set status = 'suspended' where id = $1", owner.as_uuid()).await;
    acting.recipe(&agent, "Ours").await.problem(404, "not-found");
    app.stop().await;
}

/// Contract: recipes 4. Concurrent creates do not exceed the limit.
#[tokio::test]
async fn number_of_recipes_per_account_is_limited() {
    let app = App::simulated().with_second_factors().set("limits.recipes", "3").start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let racing = (0..12).map(|_| {
        let (client, agent) = (client.clone(), agent.clone());
        async move { client.recipe(&agent, "One").await }
    });
    let answers = at_once(racing).await;
    let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(made.len(), 3);
    for answer in refused {
        let body = answer.problem(409, "conflict").body;
        assert_eq!((&body["current_recipes"], &body["limit"]), (&json!(3), &json!(3)));
    }
    client.recipe(&unknown_id("agt"), "One").await.problem(404, "not-found");
    let id = made[0].body["id"].as_str().expect("an id");
    client.delete(&format!("/v1/recipes/{id}")).await.expect(204);
    client.recipe(&agent, "One").await.expect(201);
    app.stop().await;
}

/// Contract: recipes 4.
#[tokio::test]
async fn steps_and_bytes_of_a_recipe_are_limited() {
    let app = App::simulated()
        .with_second_factors()
        .set("limits.recipe_steps", "2")
        .set("limits.recipe_bytes", "1000")
        .start()
        .await;
    let client = app.client().await;
    let (many, large) = (client.agent().await, client.agent().await);
    let back = || done(json!("Back"), &[]);
    app.turn(&many, "plan", &[back(), back()]).await;
    client.recipe(&many, "Two").await.expect(201);
    app.turn(&many, "plan", &[back()]).await;
    let told = client.recipe(&many, "Three").await.invalid("agent_session_id");
    assert!(told.body["detail"].as_str().expect("a text").contains('2'), "{}", told.body);
    client.suggestion(&many).await.invalid("agent_session_id");

    let typed = |bytes| done(json!({"Type": {"target": css("#a"), "value": "x".repeat(bytes)}}), &[]);
    app.turn(&large, "plan", &[typed(900)]).await;
    client.recipe(&large, "Large").await.expect(201);
    app.turn(&large, "plan", &[typed(100)]).await;
    client.recipe(&large, "Larger").await.invalid("agent_session_id");
    assert_eq!(app.count("select count(*) from recipes").await, 2);
    app.stop().await;
}

/// Contract: recipes 6.
#[tokio::test]
async fn recipe_survives_its_agent_session_but_not_its_account() {
    let app = App::with_recipes().await;
    let person = app.person(Tier::Enterprise).await;
    let agent = person.client.agent().await;
    app.sign_in_turn(&agent).await;
    let path = format!("/v1/recipes/{}", person.client.recipe_of(&agent).await);
    let before = person.client.get(&path).await.expect(200).body;
    person.client.delete(&format!("/v1/agent-sessions/{agent}")).await.expect(204);
    assert_eq!(person.client.get(&path).await.expect(200).body, before, "closing the agent session changed its recipe");
    person.client.recipe_of(&agent).await;

    app.execute(
        "update agent_sessions set destroyed_at = now() - interval '30 days 1 second' where id = $1",
        uuid_of(&agent),
    )
    .await;
    app.run(&["sweep", "retention"]).await.code(0);
    let after = person.client.get(&path).await.expect(200).body;
    assert_eq!(after["agent_session_id"], Value::Null);
    assert_eq!((&after["intent_log"], &after["updated_at"]), (&before["intent_log"], &before["updated_at"]));
    person.client.recipe(&agent, "Too late").await.problem(404, "not-found");

    let confirm = json!({"confirm": "delete-account"});
    let deleted = person.client.request(reqwest::Method::DELETE, "/v1/account/me").json(&confirm);
    person.client.send(deleted).await.expect(204);
    assert_eq!(app.count("select count(*) from recipes").await, 0);
    app.stop().await;
}

/// Contract: recipes 7; lists 1 to 3. Lists leave out the steps.
#[tokio::test]
async fn recipes_are_listed_newest_first() {
    let app = App::with_recipes().await;
    let (client, other) = (app.client().await, app.client().await);
    let agent = client.agent().await;
    for label in ["one", "two", "three"] {
        client.recipe(&agent, label).await.expect(201);
    }
    let labels = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().expect("a list");
        data.iter().map(|recipe| recipe["label"].as_str().expect("a label").to_owned()).collect()
    };
    let first = client.get("/v1/recipes?limit=2").await.expect(200).body;
    assert_eq!((labels(&first), &first["has_more"]), (vec!["three".to_owned(), "two".to_owned()], &json!(true)));
    assert!(first["data"].as_array().expect("a list").iter().all(|recipe| recipe.get("intent_log").is_none()));
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let last = client.get(&format!("/v1/recipes?limit=2&cursor={cursor}")).await.expect(200).body;
    assert_eq!(labels(&last), ["one"]);
    assert_eq!((&last["has_more"], &last["next_cursor"]), (&json!(false), &Value::Null));
    other.get(&format!("/v1/recipes?cursor={cursor}")).await.invalid("cursor");
    for limit in ["0", "101", "x"] {
        client.get(&format!("/v1/recipes?limit={limit}")).await.invalid("limit");
    }
    app.stop().await;
}

/// Contract: recipes 10, 11. One audit row is written.
#[tokio::test]
async fn second_deletion_of_a_recipe_is_404() {
    let app = App::with_recipes().await;
    let (account, client) = app.customer(Tier::Enterprise).await;
    let agent = client.agent().await;
    let id = client.recipe_of(&agent).await;
    let path = format!("/v1/recipes/{id}");
    app.client().await.delete(&path).await.problem(404, "not-found");
    client.delete(&path).await.expect(204);
    client.delete(&path).await.problem(404, "not-found");
    client.get(&path).await.problem(404, "not-found");
    let rows = app.audited(account, "recipe.deleted").await;
    assert_eq!(rows.iter().map(|row| &row.payload).collect::<Vec<_>>(), [&json!({"label": "Sign in"})]);
    assert_eq!(rows[0].target_resource_id, Some(id));
    for bad in ["rec_x", "agt_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1"] {
        client.get(&format!("/v1/recipes/{bad}")).await.problem(404, "not-found");
    }
    app.stop().await;
}

/// Contract: recipes 11. A recipe that was sealed with an unavailable key can be deleted.
#[tokio::test]
async fn recipes_without_deployment_key_are_503() {
    let app = App::simulated().start().await;
    let client = app.client().await;
    let agent = client.agent().await;
    for answer in [
        client.recipe(&agent, "One").await,
        client.recipe("nonsense", "").await,
        client.get("/v1/recipes").await,
        client.get(&format!("/v1/recipes/{}", unknown_id("rec"))).await,
        client.delete(&format!("/v1/recipes/{}", unknown_id("rec"))).await,
    ] {
        let body = answer.problem(503, "feature-unavailable").body;
        assert!(body["detail"].as_str().expect("a text").contains("required for recipes"), "{body}");
    }
    assert_eq!(client.suggestion(&agent).await.expect(200).body["intent_count"], 0);
    app.stop().await;

    let app = App::with_recipes().await;
    let client = app.client().await;
    let id = client.recipe_of(&client.agent().await).await;
    app.execute("update recipes set sealed_steps = 'x' || sealed_steps where id = $1", uuid_of(&id)).await;
    client.get(&format!("/v1/recipes/{id}")).await.problem(503, "feature-unavailable");
    client.delete(&format!("/v1/recipes/{id}")).await.expect(204);
    app.stop().await;
}

/// Contract: recipes 12. It contains no secret and creates nothing.
#[tokio::test]
async fn suggestion_has_a_valid_label_and_description() {
    let app = App::with_recipes().await;
    let client = app.client().await;
    let agent = client.agent().await;
    let generic = client.suggestion(&agent).await.expect(200).body;
    assert_eq!(members(&generic), BTreeSet::from(["intent_count", "suggested_description", "suggested_label"]));
    app.turn(&agent, "plan", &[done(json!({"Wait": {"condition": {"Time": {"ms": 5}}}}), &[])]).await;
    let waiting = client.suggestion(&agent).await.expect(200).body;
    app.sign_in_turn(&agent).await;
    let suggested = client.suggestion(&agent).await.expect(200).body;
    assert_eq!(suggested, client.suggestion(&agent).await.expect(200).body);
    assert_eq!(
        (&suggested["suggested_label"], &suggested["intent_count"]),
        (&json!("Sign in at shop.example.com"), &json!(5))
    );
    for text in [SECRET, "ada@example.com", "from=mail"] {
        assert!(!suggested.to_string().contains(text), "{suggested}");
    }
    for words in [generic, waiting, suggested] {
        let body = json!({
            "agent_session_id": agent, "label": words["suggested_label"], "description": words["suggested_description"],
        });
        let made = client.post("/v1/recipes", body).await.expect(201).body;
        assert_eq!(
            (&made["label"], &made["description"]),
            (&words["suggested_label"], &words["suggested_description"])
        );
    }
    assert_eq!(app.count("select count(*) from recipes").await, 3, "a suggestion created a recipe");
    app.stop().await;
}
