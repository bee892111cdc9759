//! A label and a description for a recipe (contract: recipes 12). Equal steps give equal suggestions.

use kitfleet_types::limits::Limits;
use url::Url;

use super::steps::{Element, Step};

/// Satisfies the rules for recipes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    pub label: String,
    pub description: String,
}

/// Names only the hosts of visited pages, because the rest of an address may be private, and never typed text.
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
            // A page controls the name of its buttons, so the host keeps its full length and the name is shortened.
            let rest = format!(" at {host}");
            let room = limits.recipe_label_chars.saturating_sub(rest.chars().count());
            format!("{}{rest}", cut(&name, room))
        }
        (Some(name), None) => format!("Tap {name}"),
        (None, Some(host)) => format!("Visit {host}"),
        (None, None) => "Recorded agent session".to_owned(),
    };
    let mut phrases: Vec<_> = steps.iter().map(phrase).collect();
    phrases.dedup();
    let description = match steps.len() {
        0 => "Nothing was recorded.".to_owned(),
        1 => format!("1 step: {}.", phrases.join(", ")),
        steps => format!("{steps} steps: {}.", phrases.join(", ")),
    };
    Suggestion {
        label: cut(&label, limits.recipe_label_chars),
        description: cut(&description, limits.recipe_description_chars),
    }
}

fn phrase(step: &Step) -> String {
    match step {
        Step::Navigate { url } => host(url).map_or("opens a page".to_owned(), |host| format!("opens {host}")),
        Step::Tap(element) => format!("taps {}", described(element)),
        Step::DoubleTap(element) => format!("taps {} twice", described(element)),
        Step::LongPress(element) => format!("holds {}", described(element)),
        Step::Check { element, checked: true } => format!("checks {}", described(element)),
        Step::Check { element, checked: false } => format!("unchecks {}", described(element)),
        Step::Fill { element, .. } => format!("fills in {}", described(element)),
        Step::Drag { element, .. } => format!("drags {}", described(element)),
        Step::Swipe { .. } => "swipes".to_owned(),
        Step::Hover(element) => format!("points at {}", described(element)),
        Step::Dialog { accept: true, .. } => "accepts a dialog".to_owned(),
        Step::Dialog { accept: false, .. } => "dismisses a dialog".to_owned(),
        Step::ActivatePage(_) => "switches to another page".to_owned(),
        Step::ClosePage(_) => "closes a page".to_owned(),
        Step::SetLocation { .. } => "sets the location".to_owned(),
        Step::Type { element, .. } => format!("types into {}", described(element)),
        Step::Press { .. } => "presses a key".to_owned(),
        Step::Select { element, .. } => format!("selects in {}", described(element)),
        Step::Scroll { .. } => "scrolls".to_owned(),
        Step::Wait { .. } => "waits".to_owned(),
        Step::Capture { .. } => "captures the page".to_owned(),
        Step::Extract { .. } => "reads values".to_owned(),
        Step::Back => "goes back".to_owned(),
        Step::Forward => "goes forward".to_owned(),
        Step::Reload => "loads the page again".to_owned(),
    }
}

fn host(url: &str) -> Option<String> {
    Url::parse(url).ok()?.host_str().map(str::to_owned)
}

/// Returns the quoted part of an element's description, or all of it if there is none.
fn name(element: &Element) -> String {
    let described = described(element);
    let quoted =
        described.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"')).map(|(name, _)| name.trim().to_owned());
    quoted.filter(|name| !name.is_empty()).unwrap_or(described)
}

/// Returns an element's description, or else its selector, on one line.
fn described(element: &Element) -> String {
    let one_line = |text: &str| {
        let text = text.replace(char::is_control, " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let description = one_line(&element.description);
    if description.is_empty() { one_line(&element.selector) } else { description }
}

/// Ends in an ellipsis if the text was cut.
fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(max.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end()).chars().take(max).collect()
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
    fn suggestion_names_host_and_steps() {
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

    /// Contract: limits 5. Ten times the maximum steps of a recipe take about ten times as long.
    #[test]
    fn suggestion_time_is_linear_in_the_steps() {
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
        fn suggestion_satisfies_the_rules_of_recipes(urls in proptest::collection::vec(any::<String>(), 0..4), name in "\\PC{0,300}", host in "[a-z]{1,200}") {
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
