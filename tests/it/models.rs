//! Requests to model providers and their responses (contract: byok 10 to 15), with a test double on loopback.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kitfleet_domain::byok::{Provider, ProviderKey, TestOutcome};
use kitfleet_models::{
    Action, AnswerError, ConversationRole, ConversationTurn, Credential, Failure, ModelAnswer, ModelCall, Models, Page,
    Payer, Prompt, PromptContext, Ref, Settings, Step, Usage,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::app::free_port;
use crate::support::model_provider::{
    ModelProvider, Reply, anthropic_call, anthropic_error, openai_call, openai_error,
};
use crate::support::{eventually, plain_http};

const KEY: &str = "sk-ant-api03-in-a-header-only";
/// Longer than the timeouts of these tests.
const LONG: Duration = Duration::from_mins(1);
const PROVIDERS: [Provider; 2] = [Provider::Anthropic, Provider::Openai];
const PAGE: Page<'static> = Page {
    url: "https://shop.example/cart",
    snapshot: "document \"Cart\"\n  button \"Buy\" [ref=e1]\n  textbox \"Code\" [ref=e2]",
    links: &[],
};

fn asking(base_url: &str, timeout: Duration) -> Models {
    let mut settings = Settings { timeout, ..Settings::default() };
    base_url.clone_into(&mut settings.anthropic.base_url);
    base_url.clone_into(&mut settings.openai.base_url);
    Models::new(settings).expect("an HTTP client")
}

fn with(provider: Provider) -> Credential {
    Credential { provider, key: ProviderKey::parse(KEY).expect("a key"), payer: Payer::Account }
}

fn ask(message: &str) -> Prompt<'_> {
    let context = PromptContext::default();
    Prompt { message, history: &[], page: Some(PAGE), done: &[], max_steps: 20, max_tokens: 5_000, context }
}

fn call(provider: Provider, input: &Value) -> Reply {
    Reply::Json(200, if provider == Provider::Anthropic { anthropic_call(input) } else { openai_call(input) })
}

async fn asked(provider: Provider, reply: Reply) -> (ModelCall, usize) {
    let double = ModelProvider::start().await;
    double.answer(reply);
    let models = asking(&double.base_url, Duration::from_secs(30));
    (models.ask(&with(provider), &ask("buy it"), LONG).await, double.asked().len())
}

/// Contract: byok 10, 13, 15. The usage has the price of the provider.
#[tokio::test]
async fn requests_and_responses_of_both_providers_work() {
    let steps =
        json!([{"kind": "type", "ref": "e2", "value": "SPRING"}, {"kind": "tap", "ref": "e1", "ask_approval": true}]);
    let wanted = ModelAnswer::Plan {
        steps: vec![
            Step {
                action: Action::Type { target: Ref("e2".to_owned()), value: "SPRING".to_owned() },
                needs_approval: false,
            },
            Step { action: Action::Tap { target: Ref("e1".to_owned()) }, needs_approval: true },
        ],
        reply: "Entering the code, then buying.".to_owned(),
        look_again: true,
    };
    for (provider, usage, cents) in [
        (Provider::Anthropic, Usage { input: 472, output: 89, cache_write: 2_048, cache_read: 1_024 }, 1.0738),
        (Provider::Openai, Usage { input: 2_267, output: 123, cache_write: 0, cache_read: 1_024 }, 0.4192),
    ] {
        let double = ModelProvider::start().await;
        double.answer(call(
            provider,
            &json!({"kind": "plan", "reply": "Entering the code, then buying.", "steps": steps, "look_again": true}),
        ));
        let history = [
            ConversationTurn { by: ConversationRole::Customer, text: "open shop.example" },
            ConversationTurn { by: ConversationRole::Agent, text: "It is open." },
        ];
        let ask = Prompt { history: &history, ..ask("use SPRING, and buy it") };
        let models = asking(&double.base_url, Duration::from_secs(30));
        let asked = models.ask(&with(provider), &ask, LONG).await;
        assert_eq!(asked.reading, Ok(wanted.clone()));
        let guessed = models.guess_tokens(provider, &ask);
        assert!((1_000..8_192).contains(&guessed), "{guessed}");
        assert_eq!((asked.usage, asked.provider), (usage, provider));
        assert!((asked.cost.cents() - cents).abs() < 1e-9, "{:?}", asked.cost);

        let sent = double.asked();
        assert_eq!(sent.len(), 1);
        let (sent, body) = (&sent[0], &sent[0].body);
        let (messages, rules, tool) = match provider {
            Provider::Anthropic => {
                assert_eq!((sent.path.as_str(), sent.header("x-api-key")), ("/v1/messages", KEY));
                assert_eq!(sent.header("anthropic-version"), "2023-06-01");
                assert_eq!(body["tool_choice"]["name"], "answer");
                (&body["messages"], &body["system"][0]["text"], &body["tools"][0]["input_schema"])
            }
            Provider::Openai => {
                assert_eq!(
                    (sent.path.as_str(), sent.header("authorization")),
                    ("/v1/responses", &*format!("Bearer {KEY}"))
                );
                assert_eq!((&body["store"], &body["tool_choice"]["name"]), (&json!(false), &json!("answer")));
                (&body["input"], &body["instructions"], &body["tools"][0]["parameters"])
            }
        };
        assert_eq!(asked.model, body["model"]);
        let max = body.get("max_tokens").or(body.get("max_output_tokens"));
        assert_eq!(max, Some(&json!(5_000)));
        assert_eq!(tool["properties"]["steps"]["maxItems"], 20);
        assert!(rules.as_str().is_some_and(|rules| rules.contains("It is data")), "{rules}");
        let speakers: Vec<_> = messages.as_array().expect("messages").iter().map(|message| &message["role"]).collect();
        assert_eq!(speakers, ["user", "assistant", "user"]);
        let last = messages[2]["content"].as_str().expect("text");
        assert!(last.contains("button \"Buy\" [ref=e1]") && last.ends_with("use SPRING, and buy it"), "{last}");
        assert!(!body.to_string().contains("sk-"), "{body}");
    }
}

/// Contract: byok 12. Only a short Retry-After leads to a retry.
#[tokio::test]
async fn provider_errors_are_distinguished_and_rarely_retried() {
    let (anthropic, openai) = (Provider::Anthropic, Provider::Openai);
    let busy = anthropic_error("overloaded_error", "Overloaded");
    let redirect_target = ModelProvider::start().await;
    for (provider, reply, failure, times) in [
        (
            anthropic,
            Reply::Json(401, anthropic_error("authentication_error", "invalid x-api-key")),
            Failure::KeyRefused,
            1,
        ),
        (openai, Reply::Json(402, openai_error("billing", "billing", "pay")), Failure::QuotaExceeded, 1),
        (
            openai,
            Reply::Later(429, "1", openai_error("insufficient_quota", "insufficient_quota", "no")),
            Failure::QuotaExceeded,
            1,
        ),
        (openai, Reply::Json(429, openai_error("tokens", "rate_limit_exceeded", "wait")), Failure::Busy, 1),
        (anthropic, Reply::Later(429, "11", anthropic_error("rate_limit_error", "wait")), Failure::Busy, 1),
        (
            anthropic,
            Reply::Later(429, "Wed, 21 Oct 2026 07:28:00 GMT", anthropic_error("rate_limit_error", "wait")),
            Failure::Busy,
            1,
        ),
        (anthropic, Reply::Json(529, busy.clone()), Failure::Busy, 1),
        (anthropic, Reply::Later(503, "0", busy.clone()), Failure::Status(503), 1),
        (
            anthropic,
            Reply::Json(400, anthropic_error("invalid_request_error", "prompt is too long")),
            Failure::Status(400),
            1,
        ),
        (openai, Reply::Redirect(format!("{}/v1/responses", redirect_target.base_url)), Failure::Status(307), 1),
        (openai, Reply::Endless(200), Failure::TooLong, 1),
        (anthropic, Reply::Huge, Failure::TooLong, 1),
        (anthropic, Reply::Text(200, "{\"content\": ["), Failure::Malformed, 1),
        (openai, Reply::Text(200, "<html>Welcome</html>"), Failure::Malformed, 1),
        (openai, Reply::Json(200, json!({"output": []})), Failure::Malformed, 1),
    ] {
        let (asked, came) = asked(provider, reply.clone()).await;
        assert_eq!(asked.reading, Err(failure), "{reply:?}");
        assert_eq!((came, asked.usage), (times, Usage::default()), "{reply:?}");
    }
    assert!(redirect_target.asked().is_empty(), "a redirect was followed");

    let double = ModelProvider::start().await;
    let models = asking(&double.base_url, Duration::from_secs(30));
    // One rejection followed by a success, and two rejections.
    double.answer(Reply::Later(529, "0", busy.clone()));
    let answered = models.ask(&with(anthropic), &ask("x"), LONG).await;
    assert_eq!(answered.reading, Ok(ModelAnswer::Refuse { reply: "No.".to_owned() }));
    assert_eq!(double.asked().len(), 2);
    assert_eq!(double.asked()[0].body, double.asked()[1].body);
    for _ in 0..2 {
        double.answer(Reply::Later(429, "1", openai_error("tokens", "rate_limit_exceeded", "wait")));
    }
    let begun = Instant::now();
    assert_eq!(models.ask(&with(openai), &ask("x"), LONG).await.reading, Err(Failure::Busy));
    assert!(begun.elapsed() >= Duration::from_secs(1), "the client did not wait before the second request");
    assert_eq!(double.asked().len(), 4);
}

/// Contract: byok 21. Its usage counts.
#[tokio::test]
async fn truncated_response_is_not_used() {
    let call = json!({"kind": "plan", "reply": "I will"});
    let [mut of_anthropic, mut of_openai] = [anthropic_call(&call), openai_call(&call)];
    of_anthropic["stop_reason"] = json!("max_tokens");
    of_openai["status"] = json!("incomplete");
    for (provider, reply) in [(Provider::Anthropic, of_anthropic), (Provider::Openai, of_openai)] {
        let (asked, came) = asked(provider, Reply::Json(200, reply)).await;
        assert_eq!((asked.reading, came), (Err(Failure::CutOff), 1));
        assert_ne!(asked.usage, Usage::default());
    }
}

/// Contract: byok 12. The request is not repeated.
#[tokio::test]
async fn request_without_response_times_out() {
    let double = ModelProvider::start().await;
    let models = asking(&double.base_url, Duration::from_millis(500));
    let begun = Instant::now();
    for reply in [Reply::Hang, Reply::Stall, Reply::Later(429, "10", anthropic_error("rate_limit_error", "wait"))] {
        double.answer(reply.clone());
        let late = models.ask(&with(Provider::Anthropic), &ask("x"), LONG).await;
        assert_eq!(late.reading, Err(Failure::Late), "{reply:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(double.asked().len(), 3);
    let unreachable = asking("http://127.0.0.1:9", Duration::from_secs(10));
    let lost = unreachable.ask(&with(Provider::Openai), &ask("x"), LONG).await;
    assert_eq!(lost.reading, Err(Failure::Unreachable));
}

/// Contract: byok 13, 14, 15. Its usage counts.
#[tokio::test]
async fn response_with_disallowed_steps_is_unusable() {
    for provider in PROVIDERS {
        for (input, why) in [
            (json!({"kind": "plan", "steps": [{"kind": "tap", "ref": "e7"}]}), AnswerError::NoElement(1)),
            (json!({"kind": "plan", "steps": [{"kind": "tap", "selector": "#buy"}]}), AnswerError::Step(1)),
            (
                json!({"kind": "plan", "steps": [{"kind": "back"}, {"kind": "run", "script": "x"}]}),
                AnswerError::Step(2),
            ),
            (json!({"kind": "plan", "steps": vec![json!({"kind": "back"}); 21]}), AnswerError::Steps(21)),
            (json!("open evil.example"), AnswerError::Form),
        ] {
            let (asked, _) = asked(provider, call(provider, &input)).await;
            assert_eq!(asked.reading, Err(Failure::Unusable(why)), "{input}");
            assert!(asked.usage.total() > 0 && asked.cost.cents() > 0.0);
        }
        // A navigation that only the page suggested requires approval.
        let evil = json!({"kind": "plan", "steps": [{"kind": "navigate", "url": "https://evil.example/?c=SPRING"}]});
        let (asked, _) = asked(provider, call(provider, &evil)).await;
        let Ok(ModelAnswer::Plan { steps, .. }) = asked.reading else { panic!("{asked:?}") };
        assert!(steps[0].needs_approval);
    }
    // Unusable as well: text instead of a call, two calls, a call of another tool, and arguments that are not JSON.
    let mut words = anthropic_call(&json!({}));
    words["content"] = json!([{"type": "text", "text": "I would tap Buy."}]);
    let mut twice = anthropic_call(&json!({"kind": "plan", "steps": [{"kind": "back"}]}));
    let one = twice["content"][1].clone();
    twice["content"].as_array_mut().expect("blocks").push(one);
    let mut another = anthropic_call(&json!({"kind": "plan", "steps": [{"kind": "back"}]}));
    another["content"][1]["name"] = "shell".into();
    for body in [words, twice, another] {
        let (asked, _) = asked(Provider::Anthropic, Reply::Json(200, body)).await;
        assert_eq!(asked.reading, Err(Failure::Unusable(AnswerError::NoCall)));
        assert_eq!(asked.usage.total(), 3_633);
    }
    let mut broken = openai_call(&json!({}));
    broken["output"][1]["arguments"] = "{\"kind\": ".into();
    let (asked, _) = asked(Provider::Openai, Reply::Json(200, broken)).await;
    assert_eq!(asked.reading, Err(Failure::Unusable(AnswerError::Form)));
    assert_eq!(asked.usage.total(), 3_414);
}

const FAKELLM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/fakellm.yaml");

/// Contract: byok 5, 12, 13.
#[tokio::test]
async fn independent_anthropic_double_works() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("schemathesis/bin/fakellm");
    assert!(program.exists(), "./ops/test installs fakellm");
    let port = free_port();
    let mut command = Command::new(program);
    command.args(["serve", "--config", FAKELLM, "--port", &port.to_string()]).env_clear().env("LANG", "C.UTF-8");
    let mut double =
        command.stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn().expect("fakellm runs");
    let base_url = format!("http://127.0.0.1:{port}");
    let http = plain_http().build().expect("an HTTP client");
    eventually(Duration::from_secs(30), "fakellm responds", async || {
        http.get(format!("{base_url}/_fakellm/stats")).send().await.ok()
    })
    .await;

    let models = asking(&base_url, Duration::from_secs(30));
    let anthropic = with(Provider::Anthropic);
    assert_eq!(models.test(Provider::Anthropic, &anthropic.key).await, TestOutcome::Ok);
    // fakellm does not implement the Responses API.
    assert_eq!(models.test(Provider::Openai, &anthropic.key).await, TestOutcome::Unknown);
    let asked = models.ask(&anthropic, &ask("please buy it"), LONG).await;
    let tap = Step { action: Action::Tap { target: Ref("e1".to_owned()) }, needs_approval: false };
    assert_eq!(asked.reading, Ok(ModelAnswer::Plan { steps: vec![tap], reply: String::new(), look_again: false }));
    assert!(asked.usage.total() > 0);
    for (message, failure) in [
        ("a script, please", Failure::Unusable(AnswerError::Step(1))),
        ("chat with me", Failure::Unusable(AnswerError::NoCall)),
        ("be unknown to me", Failure::KeyRefused),
        ("be overloaded", Failure::Busy),
        ("be out of credit", Failure::QuotaExceeded),
    ] {
        assert_eq!(models.ask(&anthropic, &ask(message), LONG).await.reading, Err(failure), "{message}");
    }
    double.kill().await.expect("the process ends");
}
