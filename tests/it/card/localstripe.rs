//! `localstripe` is a third-party double of Stripe's API. It has no checkout. It sends its events at once, often `invoice.paid`
//! before the subscription's own event.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use reqwest::Method;
use serde_json::Value;

use super::SUBSCRIPTION;
use crate::support::app::free_port;
use crate::support::card_provider::{SECRET_KEY, WEBHOOK_SECRET};
use crate::support::{App, eventually, plain_http};

struct Localstripe {
    base_url: String,
    http: reqwest::Client,
    process: Child,
}

impl Drop for Localstripe {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Localstripe {
    async fn start() -> Self {
        let target = std::env::var("CARGO_TARGET_DIR")
            .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/target").to_owned());
        let port = free_port();
        let mut command = Command::new(format!("{target}/localstripe/bin/localstripe"));
        command.args(["--port", &port.to_string(), "--from-scratch"]).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("tests/localstripe/install has installed it");
        let http = plain_http().build().expect("an HTTP client");
        let double = Self { base_url: format!("http://127.0.0.1:{port}"), http, process };
        eventually(Duration::from_secs(20), "localstripe answers", async || {
            double.http.get(format!("{}/js.stripe.com/v3/", double.base_url)).send().await.ok()
        })
        .await;
        double
    }

    async fn call(&self, method: Method, path: &str, form: &[(&str, &str)]) -> Value {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(SECRET_KEY);
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(body);
        let response = request.send().await.expect("localstripe answers");
        let (status, body) = (response.status(), response.text().await.expect("text"));
        assert!(status.is_success(), "{path}: {status} {body}");
        serde_json::from_str(&body).unwrap_or(Value::Null)
    }

    async fn post(&self, path: &str, form: &[(&str, &str)]) -> String {
        self.call(Method::POST, path, form).await["id"].as_str().unwrap_or_default().to_owned()
    }
}

/// Contract: billing 17, 19, 20, 22, 25.
#[tokio::test]
async fn localstripe_events_give_and_remove_the_tier() {
    let stripe = Localstripe::start().await;
    let app = App::simulated().selling_at(&stripe.base_url).start().await;
    let person = app.person(Tier::Free).await;
    let endpoint = format!("{}/v1/billing/card-webhook", app.base_url);
    stripe.post("/_config/webhooks/kitfleet", &[("url", &endpoint), ("secret", WEBHOOK_SECRET)]).await;
    let card = [
        ("type", "card"),
        ("card[number]", "4242424242424242"),
        ("card[exp_month]", "12"),
        ("card[exp_year]", "2040"),
        ("card[cvc]", "123"),
    ];
    let method = stripe.post("/v1/payment_methods", &card).await;
    let customer = stripe.post("/v1/customers", &[("email", &person.email)]).await;
    stripe.post(&format!("/v1/payment_methods/{method}/attach"), &[("customer", &customer)]).await;
    let settings = [("invoice_settings[default_payment_method]", method.as_str())];
    stripe.post(&format!("/v1/customers/{customer}"), &settings).await;
    let plan = [
        ("id", "starter"),
        ("amount", "4900"),
        ("currency", "usd"),
        ("interval", "month"),
        ("product[name]", "Kitfleet api_starter"),
    ];
    stripe.post("/v1/plans", &plan).await;
    let account = person.account.to_string();
    let wanted = [
        ("customer", customer.as_str()),
        ("items[0][plan]", "starter"),
        ("metadata[account_id]", &account),
        ("metadata[tier]", "api_starter"),
    ];
    let subscription = stripe.post("/v1/subscriptions", &wanted).await;
    let mail = app.mail_to(&person.email, Template::PaymentReceipt).await;
    assert!(mail.text.contains("49.00 USD"), "{}", mail.text);
    app.mail_to(&person.email, Template::TierChanged).await;
    let shown = person.client.get(SUBSCRIPTION).await.expect(200).body;
    assert_eq!((&shown["tier"], &shown["status"]), (&"api_starter".into(), &"active".into()));
    let received =
        "select count(*) from card_events where type in ('invoice.payment_succeeded', 'customer.subscription.created')";
    assert_eq!(app.count(received).await, 2);
    stripe.call(Method::DELETE, &format!("/v1/subscriptions/{subscription}"), &[]).await;
    eventually(Duration::from_secs(20), "the account is on the free tier again", async || {
        (app.tier_of(person.account).await == "free").then_some(())
    })
    .await;
    assert_eq!(app.moves(person.account).await.len(), 2);
    assert_eq!(app.mails_to(&person.email, Template::PaymentReceipt).len(), 1);
    app.stop().await;
}

/// Shell commands of the walkthrough in docs/billing.md: the start, then each step.
fn walkthrough() -> Vec<String> {
    let document = include_str!("../../../docs/billing.md");
    let section = document.split("\n## ").find(|section| section.starts_with("Try a subscription with localstripe"));
    let blocks = section.expect("the walkthrough").split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

async fn run_commands(folder: &Path, before: &str, commands: &str) -> String {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{before}\n{commands}")]).current_dir(folder);
    // The service runs in this process, so the shell must not block the runtime.
    let output = tokio::task::spawn_blocking(move || shell.output()).await.expect("no panic").expect("bash");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.is_empty(), "{commands}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Contract: billing 17, 19, 20, 22.
#[tokio::test]
async fn documented_walkthrough_has_documented_results() {
    let stripe = Localstripe::start().await;
    let app =
        App::simulated().selling_at(&stripe.base_url).set("billing.card.webhook_secret", "whsec_walk").start().await;
    let person = app.person(Tier::Free).await;
    let steps = walkthrough();
    let [start, register, subscribe, look, cancel, look_again] = steps.as_slice() else {
        panic!("{} steps", steps.len())
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(
        start.contains("\ntarget/localstripe/bin/localstripe ") && start.starts_with("tests/localstripe/install "),
        "{start}"
    );
    assert!(root.join("tests/localstripe/install").is_file() && root.join("docs/billing/provider.py").is_file());

    let folder = tempfile::tempdir().expect("a folder");
    symlink(app.data_dir.path().join("data"), folder.path().join(".kitfleet")).expect("a link");
    // The service creates the folder with the first mail; the commands would fail before that.
    fs::create_dir_all(folder.path().join(".kitfleet/outbox")).expect("the outbox");
    let mut before = format!(
        "STRIPE={} URL={} KEY={} ACC={}\ncall() {{ curl -sS -H \"Authorization: Bearer $KEY\" \"$@\"; echo; }}",
        stripe.base_url,
        app.base_url,
        person.client.key.as_deref().expect("a key"),
        person.account,
    );
    let keep = "declare -p SUB; declare -f stripe";
    let kept = run_commands(folder.path(), &before, &format!("{register}\n{subscribe}\n{keep}")).await;
    let kept = kept.split_once("declare -- SUB").expect("the variables").1;
    before.push_str("\ndeclare -- SUB");
    before.push_str(kept);
    eventually(Duration::from_secs(20), "the account has its tier and a receipt", async || {
        let shown = run_commands(folder.path(), &before, look).await;
        let all = [r#"{"tier":"api_builder","status":"active""#, "-payment_receipt-", "-tier_changed-"];
        all.iter().all(|word| shown.contains(word)).then_some(())
    })
    .await;
    run_commands(folder.path(), &before, cancel).await;
    eventually(Duration::from_secs(20), "the account is on the free tier again", async || {
        let shown = run_commands(folder.path(), &before, look_again).await;
        shown.contains(r#"{"tier":"free","status":"canceled""#).then_some(())
    })
    .await;
    app.stop().await;
}
