//! What a recipe could be called, from what was done (contract: recipes 12). The same steps always suggest the same.

use url::Url;

use super::steps::{Element, Step};
use crate::limits::Limits;

/// What somebody could call a recipe, and say of it. Both are as a recipe takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The label.
    pub label: String,
    /// The description.
    pub description: String,
}

/// Of what was visited, only hosts are told: the rest of an address may be nobody's business. Nor is anything told of what was
/// typed.
#[must_use]
pub fn suggest(steps: &[Step], limits: &Limits) -> Suggestion {
    let host = steps.iter().find_map(|step| match step {
        Step::Navigate { url } => host(url),
        _ => None,
    });
    let tapped = steps.iter().rev().find_map(|step| match step {
        Step::Tap(element) => Some(name(element)).filter(|name| !name.is_empty()),
        _ => None,
    });
    let label = match (tapped, host) {
        (Some(name), Some(host)) => {
            // A page can call a button anything; where that was is worth more.
            let rest = format!(" at {host}");
            let room = limits.recipe_label_chars.saturating_sub(rest.chars().count());
            format!("{}{rest}", cut(&name, room))
        }
        (Some(name), None) => format!("Tap {name}"),
        (None, Some(host)) => format!("Visit {host}"),
        (None, None) => "Recorded agent session".to_owned(),
    };
    let mut told: Vec<_> = steps.iter().map(told).collect();
    told.dedup();
    let description = match steps.len() {
        0 => "Nothing was recorded.".to_owned(),
        1 => format!("1 step: {}.", told.join(", ")),
        steps => format!("{steps} steps: {}.", told.join(", ")),
    };
    Suggestion {
        label: cut(&label, limits.recipe_label_chars),
        description: cut(&description, limits.recipe_description_chars),
    }
}

fn told(step: &Step) -> String {
    match step {
        Step::Navigate { url } => host(url).map_or("opens a page".to_owned(), |host| format!("opens {host}")),
        Step::Tap(element) => format!("taps {}", described(element)),
        Step::Type { element, .. } => format!("types into {}", described(element)),
        Step::Press { .. } => "presses a key".to_owned(),
        Step::Select { element, .. } => format!("selects in {}", described(element)),
        Step::Scroll { .. } => "scrolls".to_owned(),
        Step::Wait { .. } => "waits".to_owned(),
        Step::Capture { .. } => "captures the page".to_owned(),
        Step::Extract { .. } => "reads values".to_owned(),
        Step::Back => "goes back".to_owned(),
        Step::Reload => "loads the page again".to_owned(),
    }
}

fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

/// What an element is called: what its description has between quotation marks, or else all of it.
fn name(element: &Element) -> String {
    let described = described(element);
    let quoted =
        described.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"')).map(|(name, _)| name.trim().to_owned());
    quoted.filter(|name| !name.is_empty()).unwrap_or(described)
}

/// An element in one line of text.
fn described(element: &Element) -> String {
    let one_line = |text: &str| {
        let text = text.replace(char::is_control, " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let description = one_line(&element.description);
    if description.is_empty() { one_line(&element.selector) } else { description }
}

/// At most so many characters of a text, with an ellipsis for what is left out.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end()).chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::recipes::RecipeTexts;

    fn element(description: &str) -> Element {
        Element { selector: "#a".to_owned(), description: description.to_owned() }
    }

    fn navigate(url: &str) -> Step {
        Step::Navigate { url: url.to_owned() }
    }

    fn suggested(steps: &[Step]) -> (String, String) {
        let Suggestion { label, description } = suggest(steps, &Limits::default());
        (label, description)
    }

    /// Contract: recipes 12.
    #[test]
    fn a_suggestion_says_where_and_what() {
        let open = navigate("https://shop.example.com/login?token=abc#x");
        let tap = Step::Tap(element("button \"Sign in\""));
        let typed = Step::Type { element: element("textbox \"Password\""), value: "hunter2".to_owned() };
        let (label, description) = suggested(&[open.clone(), typed.clone(), tap.clone()]);
        assert_eq!(label, "Sign in at shop.example.com");
        let expected = "3 steps: opens shop.example.com, types into textbox \"Password\", taps button \"Sign in\".";
        assert_eq!(description, expected);
        assert_eq!(suggested(&[open]).0, "Visit shop.example.com");
        assert_eq!(suggested(&[tap]).0, "Tap Sign in");
        assert_eq!(suggested(&[Step::Tap(element(""))]), ("Tap #a".to_owned(), "1 step: taps #a.".to_owned()));
        let nothing = ("Recorded agent session".to_owned(), "Nothing was recorded.".to_owned());
        assert_eq!(suggested(&[]), nothing);
        assert_eq!(suggested(&[typed]).0, "Recorded agent session");
        assert_eq!(suggested(&[Step::Back, Step::Back]).1, "2 steps: goes back.");
    }

    /// Contract: limits 5. Ten times the steps that a recipe may have take about ten times as long.
    #[test]
    fn suggesting_takes_time_that_is_linear_in_the_steps() {
        let time = |steps: usize| {
            let named = |at: usize| Step::Tap(element(&format!("button \"{at}{}\"", " x".repeat(500))));
            let (steps, begun) = ((0..steps).map(named).collect::<Vec<_>>(), Instant::now());
            suggested(&steps);
            begun.elapsed()
        };
        let times = [1_000, 10_000].map(|steps| (0..3).map(|_| time(steps)).min().unwrap_or_default());
        assert!(times[1] < times[0] * 40 && times[1] < Duration::from_secs(20), "{times:?}");
    }

    proptest! {
        #[test]
        fn a_suggestion_is_as_a_recipe_takes_it(urls in proptest::collection::vec(any::<String>(), 0..4), name in "\\PC{0,300}", host in "[a-z]{1,200}") {
            let mut steps: Vec<_> = urls.iter().map(|url| navigate(url)).collect();
            steps.push(navigate(&format!("https://{host}/")));
            steps.extend((0..40).map(|_| Step::Tap(element(&name))));
            for steps in [&steps[..], &steps[urls.len()..], &steps[steps.len() - 1..]] {
                let (label, description) = suggested(steps);
                prop_assert!(RecipeTexts::parse(&label, Some(&description), &Limits::default()).is_ok(), "{label:?} {description:?}");
                prop_assert!(!label.contains(char::is_control) && !description.contains(char::is_control));
            }
        }
    }
}
