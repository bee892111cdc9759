//! Scripts in real pages (contract: evaluate).

use serde_json::{Value, json};

use crate::support::Answer;
use crate::webkit::agents::Agent;
use crate::webkit::{Scene, assert_failed};

impl Scene {
    pub async fn evaluate(&self, script: &str) -> Answer {
        self.operate("evaluate", json!({"script": script})).await
    }

    async fn value_of(&self, script: &str) -> Value {
        let evaluated = self.evaluate(script).await.expect(200).body;
        assert_eq!(evaluated["exception"], Value::Null, "{script}: {evaluated}");
        evaluated["value"].clone()
    }

    async fn exception_of(&self, script: &str) -> Value {
        let evaluated = self.evaluate(script).await.expect(200).body;
        assert_eq!(evaluated["value"], Value::Null, "{script}: {evaluated}");
        evaluated["exception"].clone()
    }
}

/// Contract: evaluate 2, 3, 5. `JSON.stringify` makes the value.
#[tokio::test]
async fn value_is_the_json_of_the_returned_value() {
    let scene = Scene::start().await;
    scene.show("<p id=it>text</p><script>var counter = 5; const hidden = 'lexical';</script>").await;
    for (script, expected) in [
        ("return 0", json!(0)),
        ("return undefined", Value::Null),
        ("// nothing", Value::Null),
        ("return () => 1", Value::Null),
        ("return Symbol('s')", Value::Null),
        (
            "return [undefined, () => 1, NaN, new Date(0), new Map()]",
            json!([null, null, null, "1970-01-01T00:00:00.000Z", {}]),
        ),
        ("return document.querySelector('#it')", json!({})),
        ("document.body.own = document; return document.body", json!({})),
        ("counter += 1; return [counter, hidden, window.counter]", json!([6, "lexical", 6])),
        ("return await new Promise(resolve => setTimeout(() => resolve('later'), 20))", json!("later")),
        ("return Promise.resolve([1])", json!([1])),
        ("return 1 // comment", json!(1)),
        ("return this === window && [] instanceof Array", json!(true)),
        ("return 'a\\u0000é\\u{1F600}'", json!("a\0é\u{1F600}")),
    ] {
        assert_eq!(scene.value_of(script).await, expected, "{script}");
    }
    let script = "return [args instanceof Array, args.length, args[1].__proto__ === Object.prototype, args]";
    let args = json!([1, {"a": "\u{2028}'\"`"}]);
    let evaluated = scene.operate("evaluate", json!({"script": script, "args": args})).await.expect(200).body;
    assert_eq!(evaluated["value"], json!([true, 2, true, args]));
    assert!(evaluated["url"].as_str().is_some_and(|url| url.starts_with("http")), "{evaluated}");
    // Changes by a script are visible to the page and the next script.
    scene.value_of("window.left = 1; it.textContent = 'changed'").await;
    assert_eq!((scene.value_of("return left").await, scene.text("#it").await), (json!(1), json!("changed")));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: evaluate 6. It has a name, a message and the line of the script.
#[tokio::test]
async fn exception_is_a_result() {
    let scene = Scene::start().await;
    scene.show("<script>\nfunction fails() {\n\n\n  null.property;\n}</script>").await;
    for (script, name, line) in [
        ("\n\nthrow new TypeError('boom')", "TypeError", json!(3)),
        ("\nawait 1;\nnull.x", "TypeError", json!(3)),
        ("\nfails()", "TypeError", json!(2)),
        ("return Promise.reject(new RangeError('no'))", "RangeError", json!(1)),
        ("document.querySelector('::')", "SyntaxError", json!(1)),
        ("throw 'text'", "Error", Value::Null),
        ("throw null", "Error", Value::Null),
        ("throw { name: 5 }", "Error", Value::Null),
        ("return 10n", "TypeError", Value::Null),
        ("const a = {}; a.a = a; return a", "TypeError", Value::Null),
        ("return new Proxy({}, { get() { throw new EvalError('trap') } })", "EvalError", json!(1)),
        ("throw new Proxy({}, { get() { throw 1 } })", "Error", Value::Null),
        ("throw Object.assign(new Error('x'), { line: 1e300 })", "Error", Value::Null),
        ("let a = []; for (let i = 0; i < 2000; i++) a = [a]; return a", "RangeError", Value::Null),
        ("location.href = '/list'; await new Promise(() => {})", "AbortError", Value::Null),
    ] {
        let exception = scene.exception_of(script).await;
        assert_eq!((&exception["name"], &exception["line"]), (&json!(name), &line), "{script}: {exception}");
        assert!(exception["message"].is_string(), "{script}: {exception}");
        if script.contains("location") {
            continue;
        }
        assert_eq!(scene.value_of("return typeof fails").await, "function", "{script}");
    }
    assert_eq!(scene.exception_of("throw 'text'").await["message"], "text");
    let long = scene.exception_of("throw new Error('x'.repeat(1e6))").await;
    assert_eq!(long["message"].as_str().map(str::len), Some(4_096));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: evaluate 4. The answer does not quote the script.
#[tokio::test]
async fn syntax_error_is_400_on_the_script() {
    let scene = Scene::start().await;
    scene.show("<p id=it>untouched</p>").await;
    for script in [
        "it.textContent = 'ran'; let x = ;",
        "it.textContent = 'ran'; let secretName secretName",
        "}, () => { it.textContent = 'ran'",
        "} it.textContent = 'ran'; {",
        "})(); it.textContent = 'ran'; (async () => {",
        "const args = 1",
        "'secretText",
    ] {
        let refused = scene.evaluate(script).await.invalid("script");
        assert!(!refused.body.to_string().contains("secret"), "{}", refused.body);
    }
    let refused = scene.evaluate("\n\nlet x = ;").await.invalid("script");
    assert!(refused.body.to_string().contains("in line 3"), "{}", refused.body);
    assert_eq!(scene.text("#it").await, "untouched");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: evaluate 3, 8. The page replaces what its scripts share.
#[tokio::test]
async fn hostile_page_does_not_change_results() {
    let scene = Scene::start().await;
    let hostile = "<script>
        JSON.stringify = JSON.parse = () => 'forged';
        JSON = null;
        Promise.prototype.then = function () {};
        Promise.prototype.constructor = 5;
        Promise.resolve = null;
        Promise = null;
        for (const name of Object.getOwnPropertyNames(Array.prototype)) {
            if (name !== 'length') Array.prototype[name] = () => { throw 'forged' };
        }
        Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null;
        Object.prototype.error = Object.prototype.exception = 'forged';
        Object.defineProperty(Object.prototype, 'toJSON', { get() { return undefined }, set() {} });
        Object.defineProperty(Object.prototype, 'value', { get() { return 'forged' }, set() { throw 'forged' } });
        Object.defineProperty = Reflect = Function = null;
    </script>";
    let secured = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; script-src 'none';
        require-trusted-types-for 'script'\">";
    for page in [hostile, secured] {
        scene.show(page).await;
        assert_eq!(scene.value_of("return { a: [1, 'b', { c: null }] }").await, json!({"a": [1, "b", {"c": null}]}));
        assert_eq!(scene.value_of("await 1; return 'ok'").await, "ok");
        let exception = scene.exception_of("throw new Error('own')").await;
        assert_eq!(exception, json!({"name": "Error", "message": "own", "line": 1}));
        scene.evaluate("let x = ;").await.invalid("script");
    }
    scene.show("<script>Object.prototype.toJSON = function () { return 'its own' }</script>").await;
    assert_eq!(scene.value_of("return { a: 1 }").await, "its own");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: evaluate 7. The session stays `ready`.
#[tokio::test]
async fn large_value_is_withheld() {
    let scene = Scene::start().await;
    scene.show("<p>Page</p>").await;
    for (script, bytes) in
        [("return 'x'.repeat(100_000_000)", 100_000_002), ("return 'é'.repeat(4 * 1024 * 1024)", 8 * 1024 * 1024 + 2)]
    {
        let withheld = scene.evaluate(script).await.problem(502, "driver-error").body;
        assert_eq!((&withheld["bytes"], &withheld["limit_bytes"]), (&json!(bytes), &json!(8 * 1024 * 1024)));
    }
    // Each quote takes two bytes.
    let quotes = scene.value_of("return '\"'.repeat(4_000_000)").await;
    assert_eq!(quotes.as_str().map(str::len), Some(4_000_000));
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: evaluate 9. With `on_timeout: return` the session stays `ready`. An endless loop errors it.
#[tokio::test]
async fn script_that_never_ends_runs_out_of_time() {
    let mut scene = Scene::start().await;
    scene.show("<p id=it>Page</p>").await;
    let body = json!({"script": "await new Promise(() => {})", "timeout_ms": 300, "on_timeout": "return"});
    let late = scene.operate("evaluate", body).await.expect(200).body;
    assert_eq!((&late["value"], &late["exception"], &late["timed_out"]), (&Value::Null, &Value::Null, &json!(true)));
    assert_eq!(scene.value_of("return 1").await, 1);
    scene.assert_ready().await;
    for (script, on_timeout) in [
        ("await new Promise(() => {})", "fail"),
        ("for (;;);", "fail"),
        ("for (;;);", "return"),
        ("return { toJSON() { for (;;); } }", "return"),
    ] {
        let body = json!({"script": script, "timeout_ms": 300, "on_timeout": on_timeout});
        scene.operate("evaluate", body).await.problem(504, "session-timeout");
        assert_failed(&scene.app, &scene.client, &scene.session, "interact", "SessionTimeoutError").await;
        scene.begin_again().await;
        scene.show("<p id=it>Page</p>").await;
    }
    scene.app.stop().await;
}

/// Contract: evaluate 11.
#[tokio::test]
async fn dialog_of_a_script_is_answered_or_held() {
    let mut scene = Scene::start().await;
    scene.show("<p id=it></p>").await;
    let asked = scene.evaluate("return confirm('sure?')").await.expect(200).body;
    assert_eq!(asked["value"], false);
    assert_eq!(asked["dialogs"], json!([{"type": "confirm", "message": "sure?", "accepted": false}]));
    scene.client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);

    scene.session = scene.client.session_with(json!({"dialogs": "hold"})).await;
    scene.show("<p id=it></p>").await;
    let held = scene.evaluate("it.textContent = confirm('sure?'); return 1").await.expect(200).body;
    let dialog = json!({"type": "confirm", "message": "sure?", "default_value": null});
    assert_eq!((&held["value"], &held["exception"], &held["dialog"]), (&Value::Null, &Value::Null, &dialog));
    assert_eq!(scene.evaluate("return 1").await.problem(409, "conflict").body["dialog"], dialog);
    scene.act(json!({"kind": "dialog", "accept": true})).await.expect(200);
    assert_eq!(scene.text("#it").await, "true");
    scene.assert_ready().await;
    scene.app.stop().await;
}

/// Contract: evaluate 12. An agent session holds them back.
#[tokio::test]
async fn script_does_not_run_while_submissions_are_held() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = scene.written("<p id=it>untouched</p><form action=/hit method=post><button>Send</button></form>");
    agent.send_message(&format!("open {page}")).await;
    scene.evaluate("it.textContent = 'ran'; document.forms[0].submit()").await.problem(409, "conflict");
    assert_eq!((scene.text("#it").await, scene.site.hits()), (json!("untouched"), 0));
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
