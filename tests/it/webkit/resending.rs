//! A form that was sent once with approval, and whatever would send it again: history, reloads, frames and pages that act by themselves.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::agents::{Agent, replies, stands};

/// A page with a payment form whose answer shows `paid`, as a result of the POST.
fn checkout(agent: &Agent, paid: &str) -> String {
    let action = agent.scene.written(paid);
    agent
        .scene
        .written(&format!("<form method=post action='{action}'><input name=amount value=5><button>Pay</button></form>"))
}

/// Pays once with approval.
async fn pay(agent: &Agent, paid: &str) {
    let before = agent.scene.site.posts();
    let asked = agent.say(&format!("open {}, tap Pay", checkout(agent, paid))).await;
    assert_eq!(stands(&asked), ["done", "needs_approval"], "{asked}");
    assert_eq!(agent.scene.site.posts(), before, "{asked}");
    let done = agent.approve(&asked, 1).await;
    assert_eq!(stands(&done), ["done"], "{done}");
    posts(agent, before + 1).await;
    agent.scene.wait(json!({"kind": "selector", "selector": "#paid"})).await.expect(200);
}

/// Waits until the site has received this many POST requests, and for a moment in which it must receive no further one.
async fn posts(agent: &Agent, posts: usize) {
    let site = &agent.scene.site;
    eventually(Duration::from_secs(5), "it is sent", async || (site.posts() >= posts).then_some(())).await;
    agent.let_pass(500).await;
    assert_eq!(site.posts(), posts);
}

const PAID: &str = "<p id=paid>Paid</p>";

/// Contract: agents 42, 43. The steps `back` and `reload` that would send a form again wait for approval, and send it once when they have
/// it.
#[tokio::test]
async fn going_back_to_a_sent_form_needs_approval() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    pay(&agent, PAID).await;
    let asked = agent.say("reload").await;
    assert_eq!((stands(&asked), scene.site.posts()), (vec!["needs_approval"], 1), "{asked}");
    replies(&asked, "send a form again");
    agent.say(&format!("open {}", scene.site.url("/list"))).await;
    let asked = agent.say("go back").await;
    posts(&agent, 1).await;
    assert_eq!(stands(&asked), ["needs_approval"], "{asked}");
    replies(&asked, "send a form again");
    assert_eq!(scene.state().await["url"], scene.site.url("/list"));
    let done = agent.approve(&asked, 0).await;
    assert_eq!(stands(&done), ["done"], "{done}");
    posts(&agent, 2).await;
    assert_eq!(scene.text("#paid").await, "Paid");

    // The approval was used up.
    let asked = agent.say("reload").await;
    assert_eq!((stands(&asked), scene.site.posts()), (vec!["needs_approval"], 2), "{asked}");
    let done = agent.approve(&asked, 0).await;
    assert_eq!(stands(&done), ["done"], "{done}");
    posts(&agent, 3).await;
    // Back to the form itself is a GET.
    let back = agent.say("go back").await;
    assert_eq!(stands(&back), ["done"], "{back}");
    posts(&agent, 3).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42. No page sends a form again by itself, by whatever part of the session history it goes, on whatever site it is, between
/// steps or while one runs.
#[tokio::test]
async fn no_page_sends_an_approved_form_again() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    for (host, script) in [
        ("127.0.0.1", "history.back()"),
        ("127.0.0.1", "history.go(-1)"),
        ("localhost", "onload = () => history.back()"),
        ("localhost", "setTimeout(() => history.back(), 400)"),
    ] {
        pay(&agent, PAID).await;
        let sent = scene.site.posts();
        let page = scene.written(&format!("<p id=at>here</p><script>{script}</script>")).replace("127.0.0.1", host);
        let turn = agent.say(&format!("open {page}, wait 1 second")).await;
        assert_eq!(stands(&turn), ["done", "done"], "{script}: {turn}");
        replies(&turn, "by itself");
        posts(&agent, sent).await;
        assert_eq!(scene.text("#at").await, "here", "{script}");

        // A tap is done, but for what would be sent. That is no form of the page, which could be sent on approval.
        let button = scene.written("<button onclick='history.go(-2)'>Look</button>").replace("127.0.0.1", host);
        let asked = agent.say(&format!("open {button}, tap Look")).await;
        posts(&agent, sent).await;
        assert_eq!(stands(&asked), ["done", "needs_approval"], "{asked}");
        let failed = agent.approve(&asked, 1).await;
        assert_eq!(stands(&failed), ["failed"], "{failed}");
        posts(&agent, sent).await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42. A page before the one that came of a form leads there no more than a page behind it.
#[tokio::test]
async fn going_forward_to_a_sent_form_is_held() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let action = scene.written(PAID);
    let form = format!(
        "<button onclick='history.forward()'>Forth</button><form method=post action='{action}'><button>Pay</button></form>"
    );
    let asked = agent.say(&format!("open {}, tap Pay", scene.written(&form))).await;
    agent.approve(&asked, 1).await;
    posts(&agent, 1).await;
    let far = scene.written("<button onclick='history.go(-2)'>Far</button>");
    let turn = agent.say(&format!("open {far}, tap Far, wait for css \"form\"")).await;
    assert_eq!(stands(&turn), ["done", "done", "done"], "{turn}");
    let asked = agent.say("tap Forth").await;
    posts(&agent, 1).await;
    assert_eq!(stands(&asked), ["needs_approval"], "{asked}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42. The page that came of the form reloads itself, and a frame goes back, by itself, by a tap or as a step.
#[tokio::test]
async fn no_frame_and_no_reload_sends_an_approved_form_again() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let reloads = "<p id=paid>Paid</p><button onclick='location.reload()'>Look</button><script>setTimeout(() => location.reload(), 900)</script>";
    pay(&agent, reloads).await;
    agent.let_pass(1_000).await;
    agent.say("tap Look").await;
    posts(&agent, 1).await;

    for host in ["127.0.0.1", "localhost"] {
        let at = |path: &str| scene.site.url(path).replace("127.0.0.1", host);
        let action = scene.written(PAID).replace("127.0.0.1", host);
        let framed = format!(
            "<iframe name=sink src='{}'></iframe><form method=post target=sink action='{action}'><button>Pay</button></form>
             <a href='{}' target=sink>Onward</a> <button onclick='history.back()'>Look</button>
             <button onclick='setTimeout(() => history.back(), 300)'>Later</button>",
            at("/list"),
            at("/tall"),
        );
        let pay_in_frame = async || {
            let before = scene.site.posts();
            let asked = agent.say(&format!("open {}, tap Pay", scene.written(&framed))).await;
            let done = agent.approve(&asked, 1).await;
            assert_eq!(stands(&done), ["done"], "{done}");
            posts(&agent, before + 1).await;
            let turn = agent.say("tap Onward, wait 1 second").await;
            assert_eq!(stands(&turn), ["done", "done"], "{turn}");
            before + 1
        };
        let sent = pay_in_frame().await;
        let asked = agent.say("tap Look").await;
        assert_eq!(stands(&asked), ["needs_approval"], "{host}: {asked}");
        posts(&agent, sent).await;

        let sent = pay_in_frame().await;
        let turn = agent.say("tap Later, wait 1 second").await;
        assert_eq!(stands(&turn), ["done", "done"], "{host}: {turn}");
        replies(&turn, "by itself");
        posts(&agent, sent).await;

        let sent = pay_in_frame().await;
        let asked = agent.say("go back").await;
        assert_eq!(stands(&asked), ["needs_approval"], "{host}: {asked}");
        posts(&agent, sent).await;
        let done = agent.approve(&asked, 0).await;
        assert_eq!(stands(&done), ["done"], "{host}: {done}");
        posts(&agent, sent + 1).await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 43. An approval lets one form go: what the page submits after it is held back and asked about.
#[tokio::test]
async fn an_approval_covers_one_form() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let forms = "<iframe name=sink></iframe><form id=one method=post action=/hit target=sink></form><form id=two method=post action=/hit target=sink></form>";
    scene
        .show(&format!("{forms}<button onclick='one.submit(); setTimeout(() => two.submit(), 300)'>Pay</button>"))
        .await;
    let asked = agent.say("tap Pay").await;
    assert_eq!((stands(&asked), scene.site.posts()), (vec!["needs_approval"], 0), "{asked}");
    let done = agent.approve(&asked, 0).await;
    assert_eq!(stands(&done), ["done"], "{done}");
    posts(&agent, 1).await;
    let turn = agent.say("scroll down").await;
    replies(&turn, "by itself");
    posts(&agent, 1).await;

    // Into another window, which opens in its place, it goes once too.
    scene.show("<form method=post action=/hit target=_blank><button>Send</button></form>").await;
    let asked = agent.say("tap Send").await;
    agent.approve(&asked, 0).await;
    posts(&agent, 2).await;
    // To another site, which has another process.
    let elsewhere = scene.site.url_under("localhost", "/hit");
    scene.show(&format!("<form method=post action='{elsewhere}'><button>Send</button></form>")).await;
    let asked = agent.say("tap Send").await;
    agent.approve(&asked, 0).await;
    posts(&agent, 3).await;
    // A form that its server sends on keeps its method.
    let sent_on = scene.site.url("/redirect?to=/hit");
    scene.show(&format!("<form method=post action='{sent_on}'><button>Send</button></form>")).await;
    let asked = agent.say("tap Send").await;
    agent.approve(&asked, 0).await;
    posts(&agent, 5).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 21, 43. An approval ends with its step, and covers nothing that a frame or a timer of the page submits by itself, not even
/// while the step is under way.
#[tokio::test]
async fn an_approval_ends_with_its_step() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let by_itself = "<iframe name=sink></iframe><form id=ad method=post action=/hit target=sink></form>
        <script>setInterval(() => ad.submit(), 50)</script>";
    let framed = scene.written(by_itself).replace("127.0.0.1", "localhost");
    let late = "<iframe name=sink></iframe><form id=late method=post action=/hit target=sink></form>";
    for page in [
        format!("<iframe src='{framed}'></iframe><button>Send</button>"),
        format!("{by_itself}<button>Send</button>"),
        format!("{late}<button onclick='setTimeout(() => late.submit(), 2500)'>Send</button>"),
    ] {
        // Forms are held from the first message on.
        let asked = agent.say(&format!("open {}, tap Send", scene.written(&page))).await;
        assert_eq!(stands(&asked), ["done", "needs_approval"], "{asked}");
        agent.approve(&asked, 1).await;
        agent.say("wait 3 seconds").await;
        posts(&agent, 0).await;
    }
    // A form that the approved tap submits by a timer of its own is what was approved.
    let own = format!("{late}<button onclick='setTimeout(() => late.submit(), 400)'>Send</button>");
    let asked = agent.say(&format!("open {}, tap Send", scene.written(&own))).await;
    agent.approve(&asked, 1).await;
    posts(&agent, 1).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42. What the customer's own tap has scheduled is held as well, once a message drives, whatever its steps are.
#[tokio::test]
async fn forms_are_held_while_a_message_only_waits() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<form id=f method=post action=/hit></form><p id=log>log</p><button onclick='setTimeout(() => f.submit(), 1200)'>Later</button>";
    for steps in ["wait 2 seconds", "extract the text of css \"#log\" as \"log\", wait 2 seconds"] {
        scene.show(page).await;
        scene.act(json!({"kind": "tap", "target": {"role": "button"}})).await.expect(200);
        let turn: Value = agent.say(steps).await;
        assert!(stands(&turn).iter().all(|status| *status == "done"), "{turn}");
        replies(&turn, "by itself");
        posts(&agent, 0).await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
