//! Detection of challenges on pages that resemble those of the known systems, and on pages that only mention such systems.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Scene;
use crate::challenges::{challenge_events, paused, resolution, until_resumed};
use crate::support::eventually;

/// The browser does not fetch the script.
fn script(address: &str) -> String {
    format!("<script type='text/plain' src='{address}'></script>")
}

/// The address is set after the page has loaded. No server responds there.
fn frame(address: &str) -> String {
    format!(
        "<iframe class=late data-src='{address}' width=304 height=78></iframe>
         <script>addEventListener('load', () => setTimeout(() => document.querySelectorAll('.late').forEach((f) => f.src = f.dataset.src)))</script>"
    )
}

fn titled(title: &str) -> String {
    format!("<script>document.title = '{title}'</script>")
}

const TURNSTILE: &str = "https://challenges.cloudflare.com/turnstile/v0/api.js";
const ANCHOR: &str = "https://www.google.com/recaptcha/api2/anchor?ar=1&k=key";

fn pages_with_challenges() -> Vec<(&'static str, String)> {
    let kasada = "/149e9513-01fa-4fb0-aad4-566afd725d1b/2d206a39-8ed7-437e-a3be-862e0f06eea3/ips.js?tkrm_alpekz_s1.3=x";
    vec![
        (
            "cloudflare_turnstile",
            script(TURNSTILE) + "<form><div class=cf-turnstile style='width:300px;height:65px'></div></form>",
        ),
        (
            "cloudflare_interstitial",
            titled("Just a moment...")
                + &script("/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1?ray=1")
                + &script(TURNSTILE)
                + "<div class=cf-turnstile style='width:300px;height:65px'></div>",
        ),
        ("recaptcha_v2", script("https://www.google.com/recaptcha/api.js") + &frame(ANCHOR)),
        ("hcaptcha", frame("https://newassets.hcaptcha.com/captcha/v1/abc/static/hcaptcha.html#frame=checkbox&id=0")),
        ("arkose_funcaptcha", frame("https://client-api.arkoselabs.com/v2/1/enforcement.html")),
        (
            "geetest",
            script("https://static.geetest.com/v4/gt4.js")
                + "<div class=geetest_holder style='width:300px;height:44px'></div>",
        ),
        ("datadome", frame("https://geo.captcha-delivery.com/captcha/?initialCid=1")),
        (
            "perimeterx",
            titled("Access to this page has been denied") + "<div id=px-captcha style='height:100px'></div>",
        ),
        ("akamai", "<div id=sec-if-cpt-container style='height:200px'>Please wait</div>".to_owned()),
        ("imperva", frame("/_Incapsula_Resource?SWUDNSAI=31&xinfo=1")),
        ("kasada", script(kasada)),
        (
            "aws_waf",
            script("https://a.b.us-east-1.token.awswaf.com/a/b/challenge.js") + "<div id=challenge-container></div>",
        ),
        ("generic", titled("Robot Check") + "<form><input name=captcha_text></form>"),
    ]
}

fn pages_without_challenges() -> Vec<(&'static str, String)> {
    let anchor = frame(&format!("{ANCHOR}&size=invisible"));
    let hidden = |inside: &str| format!("<div style='visibility:hidden;position:absolute;top:-10000px'>{inside}</div>");
    vec![
        (
            "an article",
            "<h1 id=captchas>Captchas</h1>
             <p><a href='https://challenges.cloudflare.com/turnstile/v0/api.js'>Turnstile</a> is put into a page so:</p>
             <pre>&lt;div class=\"cf-turnstile\">&lt;/div> &lt;div id=px-captcha></pre>
             <img src=/captcha.png alt=captcha><div class=cf-turnstile style='height:65px'>a drawing</div>
             <div class=g-recaptcha style='height:78px'>another</div>".to_owned(),
        ),
        ("a title", titled("Just a moment...") + "<h1>My favourite song</h1>"),
        (
            "a score",
            script("https://www.google.com/recaptcha/api.js?render=key")
                + "<div class=grecaptcha-badge style='width:256px;height:60px;position:fixed;right:0;bottom:0'>" + &anchor + "</div>",
        ),
        (
            "hidden challenges",
            script("https://js.hcaptcha.com/1/api.js")
                + &hidden(&frame("https://newassets.hcaptcha.com/captcha/v1/a/static/hcaptcha.html#frame=challenge"))
                + &hidden(&frame("https://www.google.com/recaptcha/api2/bframe?k=key")),
        ),
        (
            "sensors",
            script("/cdn-cgi/challenge-platform/scripts/jsd/main.js")
                + &script("https://js.datadome.co/tags.js")
                + &script("https://client.px-cloud.net/PX1/main.min.js")
                + &script("/_Incapsula_Resource?SWJIYLWA=1")
                + &script("/149e9513-01fa-4fb0-aad4-566afd725d1b/2d206a39-8ed7-437e-a3be-862e0f06eea3/p.js")
                + "<script>for (const name of ['datadome', '_px3', '_abck', 'visid_incap_1', 'incap_ses_1', 'reese84', 'KP_UIDz', 'aws-waf-token'])
                     document.cookie = `${name}=1; path=/`</script>",
        ),
        ("a challenge below the viewport", "<p style='height:4000px'>long</p>".to_owned() + &script(TURNSTILE) + &frame(ANCHOR)),
        (
            "an answered challenge",
            script(TURNSTILE) + "<form><div class=cf-turnstile style='width:300px;height:65px'></div>
                <input type=hidden name=cf-turnstile-response value=token></form>",
        ),
    ]
}

/// Contract: challenges 1 to 4.
#[tokio::test]
async fn challenges_are_distinguished_from_harmless_pages() {
    let scene = Scene::start().await;
    let (client, session) = (&scene.client, &scene.session);
    // The service checks the page at once and again after 1 s, when the frames have their addresses.
    for (what, page) in pages_without_challenges() {
        scene.show(&page).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(challenge_events(&scene.app, session).await, [] as [Value; 0], "{what}");
    }
    for (kind, page) in pages_with_challenges() {
        scene.show(&format!("<!-- {kind} -->{page}")).await;
        let found = paused(client, session).await;
        assert_eq!(found["type"], kind, "{:?}", challenge_events(&scene.app, session).await.last());
        client.post(&resolution(session, &found), json!({})).await.expect(200);
    }
    let events = challenge_events(&scene.app, session).await;
    for event in &events {
        let detail = event["challenge"]["detail"].as_str().expect("words");
        assert!(detail.starts_with("The page has ") && !detail.contains("key"), "{detail}");
        let confidence = event["challenge"]["confidence"].as_f64().expect("a number");
        assert!((0.7..=1.0).contains(&confidence), "{event}");
    }
    let of = |kind: &str| events.iter().find(|event| event["challenge"]["type"] == kind).expect("an event").clone();
    let recaptcha = of("recaptcha_v2")["challenge"]["detail"].clone();
    assert_eq!(recaptcha, "The page has a frame of www.google.com, a script of www.google.com.");
    assert_eq!(events.len(), pages_with_challenges().len());
    scene.assert_ready().await;
    scene.app.assert_events_are_promised().await;
    scene.app.stop().await;
}

/// Contract: challenges 5, 8, 9. A resolved challenge is not reported again before the next page load.
#[tokio::test]
async fn pause_ends_when_the_challenge_is_answered_or_removed() {
    let scene = Scene::start().await;
    let (client, session) = (&scene.client, &scene.session);
    let widget = script(TURNSTILE)
        + "<form><div class=cf-turnstile id=w style='width:300px;height:65px'></div>
        <input type=hidden name=cf-turnstile-response></form>";
    let answered =
        widget.clone() + "<script>setTimeout(() => document.querySelector('input').value = 'token', 2500)</script>";
    let removed = widget.clone() + "<script>setTimeout(() => w.remove(), 2500)</script>";
    let clobbered =
        widget.clone() + "<img name=scripts><img name=title><img name=cookie><form name=getElementById></form>";
    for page in [answered, removed] {
        scene.show(&page).await;
        paused(client, session).await;
        scene.state().await;
        until_resumed(client, session).await;
    }
    scene.show(&clobbered).await;
    let found = paused(client, session).await;
    client.post(&resolution(session, &found), json!({})).await.expect(200);
    scene.act(json!({"kind": "scroll", "delta_x": 0, "delta_y": 1})).await.expect(200);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(challenge_events(&scene.app, session).await.len(), 3);
    scene.act(json!({"kind": "reload"})).await.expect(200);
    paused(client, session).await;
    assert_eq!(challenge_events(&scene.app, session).await.len(), 4);
    scene.app.stop().await;
}

/// Contract: challenges 2.
#[tokio::test]
async fn hanging_page_does_not_delay_the_end_of_its_session() {
    let scene = Scene::start().await;
    scene.show("<h1>soon</h1><script>setTimeout(() => { while (true); }, 200)</script>").await;
    // One check during this time and one at the end receive no response.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    scene.assert_ready().await;
    let began = Instant::now();
    scene.client.delete(&format!("/v1/sessions/{}", scene.session)).await.expect(204);
    let closed = async || scene.app.log(0).contains("egress guard of a browser closed").then_some(());
    eventually(Duration::from_secs(5), "the browser is closed", closed).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(challenge_events(&scene.app, &scene.session).await, [] as [Value; 0]);
    scene.app.stop().await;
}
