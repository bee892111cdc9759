//! The page that documents the commands of agents (contract: agent-grammar).

use kitfleet_grammar::{NOUNS, Rules, VERBS, print, read};
use kitfleet_types::addresses::Destinations;
use kitfleet_types::commands::ParsedMessage;
use kitfleet_types::limits::Limits;
use regex::Regex;
use reqwest::Method;

use crate::support::App;

/// Contract: agent-grammar 14. The page lists every word of the grammar.
#[tokio::test]
async fn examples_of_the_page_parse_as_documented() {
    let app = App::simulated().start().await;
    let answer = app.stranger().request(Method::GET, "/docs/agent-grammar").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let policy = answer.headers()["content-security-policy"].to_str().expect("text");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    let page = answer.text().await.expect("a text");
    app.stop().await;

    let (destinations, limits) = (Destinations::default(), Limits::default());
    let rules = Rules { destinations: &destinations, limits: &limits, max_steps: 20, max_characters: 10_000 };
    let (examples, words) = page.split_once("Kinds of elements").expect("examples, and then words");
    let row = Regex::new("<tr><td><code>(?<said>.*?)</code><td><code>(?<means>.*?)</code>\n").expect("a pattern");
    let mut shown = 0;
    for found in row.captures_iter(examples) {
        let [said, means] = ["said", "means"].map(|cell| text(&found[cell]));
        match read(&said, &rules) {
            ParsedMessage::Plan(plan) => assert_eq!(print(&plan), means, "{said}"),
            other => panic!("{said}: {other:?}"),
        }
        shown += 1;
    }
    assert_eq!(shown, VERBS.iter().map(|verb| verb.examples.len()).sum::<usize>());
    assert!(shown > 30, "{shown}");
    for phrase in VERBS.iter().filter(|verb| !verb.examples.is_empty()).flat_map(|verb| verb.phrases) {
        assert!(examples.contains(&format!("<code>{phrase}</code>")), "{phrase}");
    }
    for name in NOUNS.iter().flat_map(|noun| noun.names) {
        assert!(words.contains(&format!("<code>{name}</code>")), "{name}");
    }
}

/// Without HTML escapes.
fn text(cell: &str) -> String {
    cell.replace("<br>", "\n").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
