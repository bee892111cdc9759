//! A form that was approved once, submitted again by history, reloads, frames and scripts of pages.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::eventually;
use crate::webkit::agents::{Agent, assert_reply_contains, step_statuses};

/// The response to the POST contains the HTML `paid`.
fn checkout(agent: &Agent, paid: &str) -> String {
    let action = agent.scene.written(paid);
    agent
        .scene
        .written(&format!("<form method=post action='{action}'><input name=amount value=5><button>Pay</button></form>"))
}

async fn pay(agent: &Agent, paid: &str) {
    let before = agent.scene.site.posts();
    let asked = agent.send_message(&format!("open {}, tap Pay", checkout(agent, paid))).await;
    assert_eq!(step_statuses(&asked), ["done", "needs_approval"], "{asked}");
    assert_eq!(agent.scene.site.posts(), before, "{asked}");
    let done = agent.approve(&asked, 1).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(agent, before + 1).await;
    agent.scene.wait(json!({"kind": "selector", "selector": "#paid"})).await.expect(200);
}

/// No further request arrives for a moment.
async fn posts(agent: &Agent, posts: usize) {
    let site = &agent.scene.site;
    eventually(Duration::from_secs(5), "the form is submitted", async || (site.posts() >= posts).then_some(())).await;
    agent.wait_ms(500).await;
    assert_eq!(site.posts(), posts);
}

const PAID: &str = "<p id=paid>Paid</p>";

/// Contract: agents 42, 43. The approval submits the form once.
#[tokio::test]
async fn going_back_to_a_submitted_form_needs_approval() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    pay(&agent, PAID).await;
    let asked = agent.send_message("reload").await;
    assert_eq!((step_statuses(&asked), scene.site.posts()), (vec!["needs_approval"], 1), "{asked}");
    assert_reply_contains(&asked, "submit again the form");
    agent.send_message(&format!("open {}", scene.site.url("/list"))).await;
    let asked = agent.send_message("go back").await;
    posts(&agent, 1).await;
    assert_eq!(step_statuses(&asked), ["needs_approval"], "{asked}");
    assert_reply_contains(&asked, "submit again the form");
    assert_eq!(scene.state().await["url"], scene.site.url("/list"));
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(&agent, 2).await;
    assert_eq!(scene.text("#paid").await, "Paid");

    // The approval covered one submission.
    let asked = agent.send_message("reload").await;
    assert_eq!((step_statuses(&asked), scene.site.posts()), (vec!["needs_approval"], 2), "{asked}");
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(&agent, 3).await;
    // `back` to the page with the form is a GET.
    let back = agent.send_message("go back").await;
    assert_eq!(step_statuses(&back), ["done"], "{back}");
    posts(&agent, 3).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42.
#[tokio::test]
async fn page_cannot_resubmit_an_approved_form() {
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
        let turn = agent.send_message(&format!("open {page}, wait 1 second")).await;
        assert_eq!(step_statuses(&turn), ["done", "done"], "{script}: {turn}");
        assert_reply_contains(&turn, "by itself");
        posts(&agent, sent).await;
        assert_eq!(scene.text("#at").await, "here", "{script}");

        // The tap is performed without the submission. There is no pending form that an approval could submit.
        let button = scene.written("<button onclick='history.go(-2)'>Look</button>").replace("127.0.0.1", host);
        let asked = agent.send_message(&format!("open {button}, tap Look")).await;
        posts(&agent, sent).await;
        assert_eq!(step_statuses(&asked), ["done", "needs_approval"], "{asked}");
        let failed = agent.approve(&asked, 1).await;
        assert_eq!(step_statuses(&failed), ["failed"], "{failed}");
        posts(&agent, sent).await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42.
#[tokio::test]
async fn going_forward_to_a_submitted_form_is_held() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let action = scene.written(PAID);
    let form = format!(
        "<button onclick='history.forward()'>Forth</button><form method=post action='{action}'><button>Pay</button></form>"
    );
    let asked = agent.send_message(&format!("open {}, tap Pay", scene.written(&form))).await;
    agent.approve(&asked, 1).await;
    posts(&agent, 1).await;
    let far = scene.written("<button onclick='history.go(-2)'>Far</button>");
    let turn = agent.send_message(&format!("open {far}, tap Far, wait for css \"form\"")).await;
    assert_eq!(step_statuses(&turn), ["done", "done", "done"], "{turn}");
    let asked = agent.send_message("tap Forth").await;
    posts(&agent, 1).await;
    assert_eq!(step_statuses(&asked), ["needs_approval"], "{asked}");
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42. A script, a tap or a step can cause either.
#[tokio::test]
async fn frame_or_reload_cannot_resubmit_an_approved_form() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let reloads = "<p id=paid>Paid</p><button onclick='location.reload()'>Look</button><script>setTimeout(() => location.reload(), 900)</script>";
    pay(&agent, reloads).await;
    agent.wait_ms(1_000).await;
    agent.send_message("tap Look").await;
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
            let asked = agent.send_message(&format!("open {}, tap Pay", scene.written(&framed))).await;
            let done = agent.approve(&asked, 1).await;
            assert_eq!(step_statuses(&done), ["done"], "{done}");
            posts(&agent, before + 1).await;
            let turn = agent.send_message("tap Onward, wait 1 second").await;
            assert_eq!(step_statuses(&turn), ["done", "done"], "{turn}");
            before + 1
        };
        let sent = pay_in_frame().await;
        let asked = agent.send_message("tap Look").await;
        assert_eq!(step_statuses(&asked), ["needs_approval"], "{host}: {asked}");
        posts(&agent, sent).await;

        let sent = pay_in_frame().await;
        let turn = agent.send_message("tap Later, wait 1 second").await;
        assert_eq!(step_statuses(&turn), ["done", "done"], "{host}: {turn}");
        assert_reply_contains(&turn, "by itself");
        posts(&agent, sent).await;

        let sent = pay_in_frame().await;
        let asked = agent.send_message("go back").await;
        assert_eq!(step_statuses(&asked), ["needs_approval"], "{host}: {asked}");
        posts(&agent, sent).await;
        let done = agent.approve(&asked, 0).await;
        assert_eq!(step_statuses(&done), ["done"], "{host}: {done}");
        posts(&agent, sent + 1).await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 43. A later submission by the page is held and requires another approval.
#[tokio::test]
async fn approval_covers_one_form() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let forms = "<iframe name=sink></iframe><form id=one method=post action=/hit target=sink></form><form id=two method=post action=/hit target=sink></form>";
    scene
        .show(&format!("{forms}<button onclick='one.submit(); setTimeout(() => two.submit(), 300)'>Pay</button>"))
        .await;
    let asked = agent.send_message("tap Pay").await;
    assert_eq!((step_statuses(&asked), scene.site.posts()), (vec!["needs_approval"], 0), "{asked}");
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(&agent, 1).await;
    let turn = agent.send_message("scroll down").await;
    assert_reply_contains(&turn, "by itself");
    posts(&agent, 1).await;

    // A form that targets a new window is submitted once as well.
    scene.show("<form method=post action=/hit target=_blank><button>Send</button></form>").await;
    let asked = agent.send_message("tap Send").await;
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(&agent, 2).await;
    // A form that targets another site, which has another web process.
    let elsewhere = scene.site.url_under("localhost", "/hit");
    scene.show(&format!("<form method=post action='{elsewhere}'><button>Send</button></form>")).await;
    let asked = agent.send_message("tap Send").await;
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(&agent, 3).await;
    // A redirected form keeps its method.
    let sent_on = scene.site.url("/redirect?to=/hit");
    scene.show(&format!("<form method=post action='{sent_on}'><button>Send</button></form>")).await;
    let asked = agent.send_message("tap Send").await;
    let done = agent.approve(&asked, 0).await;
    assert_eq!(step_statuses(&done), ["done"], "{done}");
    posts(&agent, 5).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 21, 43.
#[tokio::test]
async fn approval_ends_with_its_step() {
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
        let asked = agent.send_message(&format!("open {}, tap Send", scene.written(&page))).await;
        assert_eq!(step_statuses(&asked), ["done", "needs_approval"], "{asked}");
        agent.approve(&asked, 1).await;
        agent.send_message("wait 3 seconds").await;
        posts(&agent, 0).await;
    }
    // The approval covers a form that the approved tap submits with its own timer.
    let own = format!("{late}<button onclick='setTimeout(() => late.submit(), 400)'>Send</button>");
    let asked = agent.send_message(&format!("open {}, tap Send", scene.written(&own))).await;
    agent.approve(&asked, 1).await;
    posts(&agent, 1).await;
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}

/// Contract: agents 42. A customer's earlier tap has scheduled the form.
#[tokio::test]
async fn forms_are_held_while_a_message_only_waits() {
    let agent = Agent::start().await;
    let scene = &agent.scene;
    let page = "<form id=f method=post action=/hit></form><p id=log>log</p><button onclick='setTimeout(() => f.submit(), 1200)'>Later</button>";
    for steps in ["wait 2 seconds", "extract the text of css \"#log\" as \"log\", wait 2 seconds"] {
        scene.show(page).await;
        scene.act(json!({"kind": "tap", "target": {"role": "button"}})).await.expect(200);
        let turn: Value = agent.send_message(steps).await;
        assert!(step_statuses(&turn).iter().all(|status| *status == "done"), "{turn}");
        assert_reply_contains(&turn, "by itself");
        posts(&agent, 0).await;
    }
    scene.assert_ready().await;
    agent.scene.app.stop().await;
}
