//! Properties that hold for every message.

use kitfleet_types::commands::{
    Command, Degrees, DragEnd, ElementQuery, ExtractItem, PageQuery, ParsedMessage, WaitCondition,
};
use kitfleet_types::ids::PageId;
use kitfleet_types::operations::{CaptureKind, Direction};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::tests::reading;
use super::{KEYS, NOUNS, VERBS, print};

/// Valid in quotation marks, including special characters.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => r"[ -~äß“”‘’\n]{0,12}",
        1 => r#"[#.\[][a-z'"\\]{0,6}"#,
        1 => prop::sample::select(vec!["and", "then", "the", "Enter", "first", "it", "a, b; c.", "don't", r#"\""#])
            .prop_map(str::to_owned),
    ]
}

fn words() -> impl Strategy<Value = String> {
    text().prop_filter("it names something", |text| !text.trim().is_empty())
}

fn role() -> impl Strategy<Value = Option<String>> {
    let roles: Vec<_> = NOUNS.iter().map(|noun| noun.role.map(str::to_owned)).collect();
    prop::sample::select(roles)
}

fn sought() -> impl Strategy<Value = ElementQuery> {
    let some_role = || role().prop_filter("it is one", Option::is_some);
    prop_oneof![
        4 => (role(), words()).prop_map(|(role, words)| ElementQuery::Described { role, words }),
        1 => some_role().prop_map(|role| ElementQuery::Described { role, words: String::new() }),
        1 => text().prop_map(ElementQuery::Css),
        1 => text().prop_map(ElementQuery::Ref),
    ]
}

fn checkable() -> impl Strategy<Value = ElementQuery> {
    sought().prop_map(|sought| match sought {
        ElementQuery::Described { role: None, words } => {
            ElementQuery::Described { role: Some("checkbox".to_owned()), words }
        }
        sought => sought,
    })
}

fn item() -> impl Strategy<Value = ExtractItem> {
    let parts = (text(), sought(), prop::option::of(text()), any::<bool>());
    parts.prop_map(|(name, target, attribute, list)| ExtractItem { name, target, attribute, list })
}

fn key() -> impl Strategy<Value = String> {
    let named = prop::sample::select(KEYS.iter().map(|key| key.key.to_owned()).collect::<Vec<_>>());
    let held = prop::sample::select(vec!["Control+", "Shift+Meta+", "Alt+"]);
    let combined = (held, "[a-z]").prop_map(|(held, key)| format!("{held}{key}"));
    prop_oneof![named, combined, Just("Control++".to_owned()), "[ -~ä]", "F[1-9]"]
}

fn page() -> impl Strategy<Value = PageQuery> {
    prop_oneof![
        words().prop_map(PageQuery::Words),
        Just(PageQuery::Other),
        Just(()).prop_map(|()| PageQuery::Id(PageId::generate()))
    ]
}

fn drag_end() -> impl Strategy<Value = DragEnd> {
    let side = || -5_000..=5_000_i32;
    prop_oneof![
        sought().prop_map(DragEnd::Element),
        (side(), side()).prop_map(|(delta_x, delta_y)| DragEnd::By { delta_x, delta_y }),
    ]
}

fn degrees(max: i32) -> impl Strategy<Value = Degrees> {
    (-89..=89_i32, 0..1_000_000_u32)
        .prop_map(move |(whole, millionths)| Degrees::parse(&format!("{whole}.{millionths:06}"), max).expect("degrees"))
}

fn other_command() -> impl Strategy<Value = Command> {
    let directions = vec![Direction::Up, Direction::Down, Direction::Left, Direction::Right];
    let swipe = (prop::sample::select(directions), prop::option::of(10..=5_000_u32), prop::option::of(sought()));
    prop_oneof![
        sought().prop_map(|target| Command::DoubleTap { target }),
        sought().prop_map(|target| Command::LongPress { target }),
        sought().prop_map(|target| Command::Hover { target }),
        (sought(), text()).prop_map(|(target, value)| Command::Fill { target, value }),
        (sought(), drag_end()).prop_map(|(target, to)| Command::Drag { target, to }),
        swipe.prop_map(|(direction, distance, target)| Command::Swipe { direction, distance, target }),
        text().prop_map(|text| Command::Dialog { accept: true, text: Some(text) }),
        prop::bool::ANY.prop_map(|accept| Command::Dialog { accept, text: None }),
        page().prop_map(|page| Command::SwitchPage { page }),
        prop::option::of(page()).prop_map(|page| Command::ClosePage { page }),
        (degrees(Degrees::LATITUDE), degrees(Degrees::LONGITUDE))
            .prop_map(|(latitude, longitude)| Command::SetLocation { latitude, longitude }),
        Just(Command::Forward),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let far = || -1_000_000..=1_000_000_i64;
    let condition = prop_oneof![
        sought().prop_map(WaitCondition::Visible),
        sought().prop_map(WaitCondition::Hidden),
        text().prop_map(WaitCondition::Url),
        (0..=60_000_u64).prop_map(|ms| WaitCondition::Time { ms }),
        Just(WaitCondition::Download),
        Just(WaitCondition::Page),
    ];
    let captures = vec![CaptureKind::Screenshot, CaptureKind::Pdf, CaptureKind::DomSnapshot];
    let named_once = |items: &Vec<ExtractItem>| {
        items.iter().enumerate().all(|(i, item)| items[..i].iter().all(|other| other.name != item.name))
    };
    prop_oneof![
        "(https?://)[a-z]{1,5}\\.example(/[ -~ä]{0,9})?"
            .prop_filter("blanks around it are none of it", |url| url.trim() == url)
            .prop_map(|url| Command::Navigate { url }),
        sought().prop_map(|target| Command::Tap { target }),
        (checkable(), prop::bool::ANY).prop_map(|(target, checked)| Command::Check { target, checked }),
        (sought(), text()).prop_map(|(target, value)| Command::Type { target, value }),
        key().prop_map(|key| Command::Press { key }),
        (sought(), text()).prop_map(|(target, option)| Command::Select { target, option }),
        (sought(), text()).prop_map(|(target, file)| Command::Upload { target, file }),
        (far(), far(), prop::option::of(sought())).prop_map(|(delta_x, delta_y, target)| Command::Scroll {
            delta_x,
            delta_y,
            target
        }),
        condition.prop_map(|condition| Command::Wait { condition }),
        prop::sample::select(captures).prop_map(|capture| Command::Capture { capture }),
        prop::collection::vec(item(), 1..4)
            .prop_filter("each name once", named_once)
            .prop_map(|items| Command::Extract { items }),
        Just(Command::Back),
        Just(Command::Reload),
    ]
}

/// A random sequence of words from the vocabulary.
fn arbitrary_text() -> impl Strategy<Value = String> {
    let phrases = VERBS.iter().flat_map(|verb| verb.phrases).chain(NOUNS.iter().flat_map(|noun| noun.names));
    let mut words: Vec<String> = phrases.map(|phrase| (*phrase).to_owned()).collect();
    let glue = [
        "the",
        "into",
        "in",
        "with",
        "to",
        "from",
        "as",
        "of",
        "all",
        "and",
        "then",
        ",",
        ";",
        "\n",
        ".",
        "for",
        "until",
        "down",
        "by",
        "called",
        "key",
        "css",
        "ref",
        "appears",
        "disappears",
        "example.com",
        "http://a.example/x",
        "Sign",
        "Email",
        "xyz",
        "3",
        "2 seconds",
        "Enter",
        "\"Sign in\"",
        "'it\\'s'",
        "“#a, b”",
        "\".x\"",
        "\"\"",
        "\"",
        "'",
        "Don't",
    ];
    words.extend(glue.map(str::to_owned));
    prop::collection::vec(prop::sample::select(words), 0..14).prop_map(|words| words.join(" "))
}

fn bare(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\\' | '"' | '\'' | '“' | '”' | '‘' | '’')).collect::<String>().to_lowercase()
}

/// The message must contain every text of the plan.
fn said(plan: &[Command]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut target = |sought: &ElementQuery| match sought {
        ElementQuery::Css(text) | ElementQuery::Ref(text) | ElementQuery::Described { words: text, .. } => text.clone(),
    };
    for command in plan {
        match command {
            Command::Navigate { url } => texts.push(url.strip_prefix("https://").unwrap_or(url).to_owned()),
            Command::Tap { target: sought }
            | Command::DoubleTap { target: sought }
            | Command::LongPress { target: sought }
            | Command::Hover { target: sought }
            | Command::Check { target: sought, .. } => texts.push(target(sought)),
            Command::Drag { target: sought, to } => {
                texts.push(target(sought));
                if let DragEnd::Element(end) = to {
                    texts.push(target(end));
                }
            }
            Command::Dialog { text, .. } => texts.extend(text.clone()),
            Command::SwitchPage { page: PageQuery::Words(words) }
            | Command::ClosePage { page: Some(PageQuery::Words(words)) } => texts.push(words.clone()),
            Command::Type { target: sought, value: text }
            | Command::Fill { target: sought, value: text }
            | Command::Select { target: sought, option: text }
            | Command::Upload { target: sought, file: text } => {
                texts.extend([target(sought), text.clone()]);
            }
            Command::Scroll { target: sought, .. } | Command::Swipe { target: sought, .. } => {
                texts.extend(sought.as_ref().map(&mut target));
            }
            Command::Wait { condition: WaitCondition::Visible(sought) | WaitCondition::Hidden(sought) } => {
                texts.push(target(sought));
            }
            Command::Wait { condition: WaitCondition::Url(pattern) } => texts.push(pattern.clone()),
            Command::Extract { items } => {
                texts.extend(
                    items.iter().flat_map(|item| [Some(target(&item.target)), item.attribute.clone()]).flatten(),
                );
            }
            Command::Press { .. }
            | Command::Wait { .. }
            | Command::Capture { .. }
            | Command::SwitchPage { .. }
            | Command::ClosePage { .. }
            | Command::SetLocation { .. }
            | Command::Back
            | Command::Forward
            | Command::Reload => {}
        }
    }
    texts
}

fn holds(message: &str) -> Result<(), TestCaseError> {
    let ParsedMessage::Plan(plan) = reading(message) else { return Ok(()) };
    prop_assert!((1..=20).contains(&plan.len()));
    let whole = bare(message);
    for text in said(&plan) {
        prop_assert!(whole.contains(&bare(&text)), "{message:?} does not name {text:?}");
    }
    // Each step takes at least one word or quoted text, and names in a step occur in the message equally often.
    let pieces = whole.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';')).filter(|piece| !piece.is_empty());
    prop_assert!(
        plan.len() <= pieces.count().max(1) + message.matches(['"', '\'', '“', '‘']).count(),
        "{message:?}: {plan:?}"
    );
    prop_assert_eq!(reading(&print(&plan)), ParsedMessage::Plan(plan));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    /// Contract: agent-grammar 2, 12.
    #[test]
    fn arbitrary_text_yields_only_named_steps(message in "\\PC{0,60}") {
        holds(&message)?;
    }

    /// Contract: agent-grammar 2, 12. The parser understands enough of these messages for a meaningful test.
    #[test]
    fn vocabulary_words_yield_only_named_steps(message in arbitrary_text()) {
        holds(&message)?;
    }

    /// Contract: agent-grammar 13.
    #[test]
    fn printed_plan_parses_to_the_same_plan(plan in prop::collection::vec(prop_oneof![3 => command(), 2 => other_command()], 1..6)) {
        prop_assert_eq!(reading(&print(&plan)), ParsedMessage::Plan(plan.clone()), "{}", print(&plan));
    }
}

/// The parser must accept enough random messages for the property above to be meaningful.
#[test]
fn random_words_sometimes_form_a_plan() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let plans = (0..2_000).filter(|_| {
        let message = arbitrary_text().new_tree(&mut runner).map(|tree| tree.current()).unwrap_or_default();
        matches!(reading(&message), ParsedMessage::Plan(_))
    });
    let plans = plans.count();
    assert!(plans > 100, "{plans}");
}
