//! `/docs/agent-grammar`: the grammar of the deterministic message parser, generated from the parser's own tables (contract:
//! agent-grammar 14).

use axum::response::Response;
use html_escape::encode_text;
use kitfleet_grammar::{KEYS, MODIFIERS, NOUNS, VERBS, Verb};
use utoipa_axum::routes;

use crate::http::error::Result;
use crate::http::routing::Routes;
use crate::routes::pages::reading;

pub fn routes() -> Routes {
    Routes::new().public(routes!(grammar))
}

/// Read the agent grammar
///
/// Documents the messages that agent sessions without a model understand, with examples.
#[utoipa::path(
    get, path = "/docs/agent-grammar", tag = "Pages", operation_id = "explainAgentGrammar",
    responses((status = 200, description = "An HTML page", body = String, content_type = "text/html; charset=utf-8")),
)]
async fn grammar() -> Result<Response> {
    let (refused, done): (Vec<_>, Vec<_>) = VERBS.iter().partition(|verb| verb.examples.is_empty());
    let verbs: String = done.into_iter().map(section).collect();
    let refused: String = refused.into_iter().flat_map(|verb| ["<li>", verb.about, "\n"]).collect();
    let nouns: String = NOUNS.iter().map(|noun| row(noun.role.unwrap_or("any"), &codes(noun.names))).collect();
    let keys = KEYS.iter().map(|key| row(key.key, &codes(key.names)));
    let keys: String =
        keys.chain(MODIFIERS.iter().map(|(key, names)| row(&format!("{key}+"), &codes(names)))).collect();
    let content = include_str!("agent-grammar.html")
        .replace("<!-- verbs -->\n", &verbs)
        .replace("<!-- nouns -->\n", &nouns)
        .replace("<!-- keys -->\n", &keys)
        .replace("<!-- refused -->\n", &refused);
    reading("The agent grammar", &content)
}

/// A verb with its phrases, description and examples.
fn section(verb: &Verb) -> String {
    let example = |(said, means): &(&str, &str)| format!("<tr><td>{}<td>{}\n", code(said), code(means));
    let examples: String = verb.examples.iter().map(example).collect();
    format!(
        "<h2>{}</h2>\n<p>{}</p>\n<p>{}</p>\n<table><thead><tr><th>Written<th>Understood</thead><tbody>\n{examples}</tbody></table>\n",
        verb.title,
        codes(verb.phrases),
        verb.about
    )
}

fn row(first: &str, second: &str) -> String {
    format!("<tr><td>{}<td>{second}\n", code(first))
}

fn codes(words: &[&str]) -> String {
    words.iter().map(|word| code(word)).collect::<Vec<_>>().join(" ")
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", encode_text(text).replace('\n', "<br>"))
}
