//! Operations without a route: locating elements by a description, and holding form submissions for approval.

use std::time::Duration;

use kitfleet_domain::actors::{OperationActor, OperationActorKind};
use kitfleet_domain::sessions::intents::{self, Claim, ReplyTo};
use kitfleet_types::ids::{IntentId, SessionId};
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{
    Action, Element, Interact, Interacted, Locate, LocateBy, Located, OnTimeout, Operation, Outcome, StoredResult,
    Target,
};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::records::uuid_of;
use crate::webkit::Scene;

/// Acts for a customer.
struct AgentScene {
    scene: Scene,
    /// Its operations wake the worker, which then also runs the operations that wait.
    other: String,
}

impl AgentScene {
    async fn start() -> Self {
        let scene = Scene::start().await;
        let other = scene.client.session().await;
        Self { scene, other }
    }

    /// Runs an operation like a worker that acts for the customer.
    async fn perform(&self, operation: &Operation) -> Result<StoredResult, Outcome> {
        let Self { scene, other } = self;
        let (session, database) = (uuid_of(&scene.session), &scene.app.database.pool);
        let account: uuid::Uuid = sqlx::query_scalar("select account_id from sessions where id = $1")
            .bind(session)
            .fetch_one(database)
            .await
            .expect("a session");
        let (intent, reply) = (IntentId::generate(), ReplyTo { channel: "nobody", request_id: "", trace_parent: None });
        let (whose, mut conn) =
            ((account.into(), SessionId::from(session)), database.acquire().await.expect("a connection"));
        let actor = OperationActor { kind: OperationActorKind::ApiKey, id: None };
        let claim = intents::claim(&mut conn, whose, intent, operation, None, &actor, reply).await;
        assert!(matches!(claim, Ok(Claim::Won { .. })), "{claim:?}");
        let moment = json!({"condition": {"kind": "time", "ms": 1}});
        scene.client.operate(other, "wait", moment).await.expect(200);
        let mut ending = None;
        eventually(Duration::from_secs(20), "the operation has ended", async || {
            let mut conn = database.acquire().await.expect("a connection");
            ending = intents::ending(&mut conn, intent).await.expect("an intent");
            ending.is_some().then_some(())
        })
        .await;
        let ending = ending.expect("an ending");
        ending.result.ok_or(ending.outcome)
    }

    async fn locate(&self, sought: LocateBy) -> Located {
        let located = self.perform(&Operation::Locate(Locate { sought })).await.expect("the operation has ended");
        located.read().expect("located elements")
    }

    async fn described(&self, role: Option<&str>, words: &str) -> Located {
        self.locate(LocateBy::Described { role: role.map(ToOwned::to_owned), words: words.to_owned() }).await
    }

    async fn act_holding(&self, action: Action, hold: bool) -> Interacted {
        let interact = Interact::parse(action, Some(10_000), OnTimeout::Return, &Limits::default()).expect("an action");
        let operation = Operation::Interact(Interact { hold_submissions: hold, ..interact });
        self.perform(&operation).await.expect("the operation has ended").read().expect("an interaction")
    }
}

fn tap(selector: &str) -> Action {
    Action::Tap { element: Some(Element::Selector(selector.to_owned())), at: None, count: 1, hold_ms: None }
}

fn names(located: &Located) -> Vec<&str> {
    located.matches.iter().map(|found| found.description.as_str()).collect()
}

/// The name can be partial, a control precedes a text, and the described role precedes others.
#[tokio::test]
async fn description_locates_the_expected_element() {
    let acting = AgentScene::start().await;
    let scene = &acting.scene;
    scene
        .show(
            "<button>Sign in</button><a href=/>Sign in with a key</a><form action=/submitted><label>Search <input name=q></label><button id=go>Go</button></form>
             <input placeholder='Your city'><p>Terms apply</p><button hidden>Terms apply</button><select aria-label=Size><option>a</select>
             <span onclick=1>Pick me</span><form action=/other><input type=submit value=Buy></form><form><input aria-label=Lone></form><textarea aria-label=Notes></textarea>",
        )
        .await;
    for (role, words, expected) in [
        (None, "sign in", vec![r#"button "Sign in""#]),
        (Some("button"), "sign in", vec![r#"button "Sign in""#]),
        (Some("link"), "sign in", vec![r#"link "Sign in with a key""#]),
        (None, "sign", vec![r#"button "Sign in""#, r#"link "Sign in with a key""#]),
        (Some("field"), "search", vec![r#"textbox "Search""#]),
        (Some("button"), "search", vec![r#"textbox "Search""#]),
        (None, "your city", vec![r#"textbox "Your city""#]),
        (Some("dropdown"), "size", vec![r#"combobox "Size""#]),
        (None, "terms apply", vec![r#"paragraph "Terms apply""#]),
        (None, "pick me", vec![r#"generic "Pick me""#]),
        (Some("heading"), "", vec![]),
        (None, "nowhere", vec![]),
    ] {
        let located = acting.described(role, words).await;
        assert_eq!(names(&located), expected, "{role:?} {words}");
        assert_eq!(located.total, u64::try_from(expected.len()).expect("few"));
    }
    let go = &acting.described(None, "go").await;
    assert_eq!((go.matches[0].selector.as_str(), go.matches[0].submits), ("#go", true));
    assert_eq!(go.origin, scene.site.base_url);
    let by = async |selector: &str| {
        let located = acting.locate(LocateBy::Target(Target::Selector(selector.to_owned()))).await;
        located.matches.into_iter().next().expect("one")
    };
    assert!(by("input[type=submit]").await.submits && !by("button").await.submits);
    assert!(by("[name=q]").await.form_field && by("[aria-label=Lone]").await.form_field);
    assert!(!by("[placeholder]").await.form_field && !by("textarea").await.form_field);
    assert!(acting.locate(LocateBy::Focused).await.matches.is_empty());
    scene.act(json!({"kind": "tap", "selector": "[name=q]"})).await.expect(200);
    assert_eq!(names(&acting.locate(LocateBy::Focused).await), [r#"textbox "Search""#]);

    // The fingerprint of an element changes with the element.
    let before = by("#go").await.fingerprint;
    assert_eq!(before, by("#go").await.fingerprint);
    for change in ["Pay", "Go"] {
        scene.show(&format!("<form action=/elsewhere><button id=go>{change}</button></form>")).await;
        assert_ne!(before, by("#go").await.fingerprint, "{change}");
    }
    scene.assert_ready().await;
    acting.scene.app.stop().await;
}

/// The page submits the form in several ways. Afterwards forms can be submitted again.
#[tokio::test]
async fn forms_are_not_submitted_while_held() {
    let acting = AgentScene::start().await;
    let scene = &acting.scene;
    let page = "<p id=log></p><form action=/hit><button id=send>Send</button><input id=field name=q></form>
        <form id=other action=/hit method=post><input name=r></form><form id=script onsubmit=\"event.preventDefault(); fetch('/hit')\"><button id=sends>Fetch</button></form>
        <div id=host></div><iframe srcdoc='<form action=/hit><button id=inner>Inner</button></form>'></iframe>
        <button id=harmless onclick=\"other.submit()\">Look</button><button id=asked onclick=\"other.requestSubmit()\">Look</button>
        <button id=late onclick=\"setTimeout(() => other.submit(), 700)\">Look</button><button id=nothing onclick=\"log.textContent += 'x'\">Nothing</button>
        <form action=/hit target=_blank><button id=blank>Blank</button></form>
        <script>host.attachShadow({mode: 'open'}).innerHTML = `<form onsubmit=\"event.preventDefault(); fetch('/hit')\"><button>Shadow</button></form>`</script>";
    scene.show(page).await;
    let address = scene.state().await["url"].clone();
    for selector in ["#send", "#sends", "#harmless", "#asked", "#blank", "#host >>> button", "iframe >>> #inner"] {
        let done = acting.act_holding(tap(selector), true).await;
        assert!(done.ok && done.submission_held, "{selector}: {done:?}");
        assert_eq!((Value::from(done.url), scene.site.hits()), (address.clone(), 0), "{selector}");
    }
    scene.act(json!({"kind": "tap", "selector": "#field"})).await.expect(200);
    assert!(acting.act_holding(Action::Press { key: "Enter".to_owned() }, true).await.submission_held);
    assert!(!acting.act_holding(tap("#nothing"), true).await.submission_held);
    // A delayed submission is held as well. The next operation reports it without attributing it to its own action.
    assert!(!acting.act_holding(tap("#late"), true).await.submission_held);
    scene.operate("wait", json!({"condition": {"kind": "time", "ms": 1_000}})).await.expect(200);
    let next = acting.act_holding(tap("#nothing"), true).await;
    assert!(next.page_submission_held && !next.submission_held, "{next:?}");
    // A held submission is not reported after another operation has left its page.
    assert!(!acting.act_holding(tap("#late"), true).await.submission_held);
    scene.operate("wait", json!({"condition": {"kind": "time", "ms": 1_000}})).await.expect(200);
    scene.show(page).await;
    let next = acting.act_holding(tap("#nothing"), true).await;
    assert!(!next.page_submission_held && !next.submission_held, "{next:?}");
    assert_eq!(scene.site.hits(), 0);
    scene.assert_ready().await;
    // Submissions of a page that loads meanwhile are held as well.
    scene.show(page).await;
    assert!(acting.act_holding(tap("#sends"), true).await.submission_held);
    assert_eq!(scene.site.hits(), 0);

    assert!(!acting.act_holding(tap("#sends"), false).await.submission_held);
    eventually(Duration::from_secs(5), "the form is submitted", async || (scene.site.hits() == 1).then_some(())).await;
    scene.act(json!({"kind": "tap", "selector": "#send"})).await.expect(200);
    eventually(Duration::from_secs(5), "the form is submitted", async || (scene.site.hits() == 2).then_some(())).await;
    scene.assert_ready().await;
    acting.scene.app.stop().await;
}
