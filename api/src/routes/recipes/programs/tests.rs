//! The code of a program is constant, whatever texts a page and its customer supply.

use std::time::{Duration, Instant};

use kitfleet_types::commands::Degrees;
use kitfleet_types::operations::{self, Target};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// They try to be executed as code.
const HOSTILE: &[&str] = &[
    "'; touch hacked; '",
    "\"; import os; os.system('touch hacked') #",
    "$(touch hacked)",
    "`touch hacked`",
    "${HOME}",
    "*/ process.exit(3); /*",
    "\"\"\"\nraise SystemExit(3)\n\"\"\"",
    "\\",
    "\\\"",
    "line\nbreak\r\nand\u{2028}another\u{2029}\u{85}\u{b}\u{c}",
    "</script><!--",
    "\u{202e}desrever\u{2066}",
    "coding: utf-7",
    "!history %s %n \\x27",
    "\u{0}\u{1}\u{7f}\u{feff}\u{fffe}",
    "🦀 Zoë 鍵 ß",
    "__proto__",
    "",
    "' + eval('1') + '",
    "{typed}",
    "#{x}",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![proptest::sample::select(HOSTILE).prop_map(str::to_owned), any::<String>(), "[a-z \"'$`\\\\\n]{0,20}"]
}

fn element() -> impl Strategy<Value = Element> {
    (text(), text()).prop_map(|(selector, description)| Element { selector, description })
}

fn sought() -> impl Strategy<Value = RecipeLocator> {
    let by = prop_oneof![
        text().prop_map(operations::Element::Selector),
        (text(), proptest::option::of(text()))
            .prop_map(|(role, name)| operations::Element::Target(Target::Role { role, name })),
        text().prop_map(|text| operations::Element::Target(Target::Text(text))),
        text().prop_map(|text| operations::Element::Target(Target::Ref(text))),
    ];
    (by, text()).prop_map(|(by, description)| RecipeLocator { by, description })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        sought().prop_map(Condition::Selector),
        sought().prop_map(Condition::SelectorHidden),
        text().prop_map(|pattern| Condition::UrlMatches { pattern }),
        (0..60_000_u64).prop_map(|ms| Condition::Time { ms }),
        Just(Condition::Download),
        Just(Condition::Page),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let item = (text(), sought(), proptest::option::of(text()), any::<bool>());
    let item = item.prop_map(|(name, sought, attribute, list)| Item { name, sought, attribute, list });
    let capture = prop_oneof![Just(CaptureKind::Screenshot), Just(CaptureKind::Pdf), Just(CaptureKind::DomSnapshot)];
    let scroll = (-900..900_i64, any::<i32>(), proptest::option::of(element()));
    prop_oneof![
        text().prop_map(|url| Step::Navigate { url }),
        element().prop_map(Step::Tap),
        (element(), text()).prop_map(|(element, value)| Step::Type { element, value }),
        text().prop_map(|key| Step::Press { key }),
        (element(), text()).prop_map(|(element, option)| Step::Select { element, option }),
        scroll.prop_map(|(x, y, target)| Step::Scroll { delta_x: x, delta_y: y.into(), target }),
        condition().prop_map(|condition| Step::Wait { condition }),
        capture.prop_map(|capture| Step::Capture { capture }),
        proptest::collection::vec(item, 0..4).prop_map(|items| Step::Extract { items }),
        gesture(),
        Just(Step::Back),
        Just(Step::Forward),
        Just(Step::Reload),
    ]
}

fn gesture() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        element().prop_map(DragEnd::Element),
        (0..900_i64, -900..900_i64).prop_map(|(x, y)| DragEnd::Path([(x, 5), (x, y)])),
    ];
    let directions = vec![Direction::Up, Direction::Down, Direction::Left, Direction::Right];
    let swipe =
        (proptest::sample::select(directions), proptest::option::of(10..900_u32), proptest::option::of(element()));
    let degrees =
        || (-80..80_i32).prop_map(|whole| Degrees::parse(&format!("{whole}.25"), Degrees::LATITUDE).expect("degrees"));
    prop_oneof![
        element().prop_map(Step::DoubleTap),
        element().prop_map(Step::LongPress),
        element().prop_map(Step::Hover),
        (element(), any::<bool>()).prop_map(|(element, checked)| Step::Check { element, checked }),
        (element(), text()).prop_map(|(element, value)| Step::Fill { element, value }),
        (element(), end).prop_map(|(element, to)| Step::Drag { element, to }),
        swipe.prop_map(|(direction, distance, target)| Step::Swipe { direction, distance, target }),
        (any::<bool>(), proptest::option::of(text())).prop_map(|(accept, text)| Step::Dialog { accept, text }),
        (degrees(), degrees()).prop_map(|(latitude, longitude)| Step::SetLocation { latitude, longitude }),
    ]
}

/// With the variable's name in place of a typed text.
fn value(json: &Json) -> Value {
    match json {
        Json::Text(text) => (*text).into(),
        Json::Number(number) => (*number).into(),
        Json::Decimal(number) => serde_json::from_str(number).expect("a number"),
        Json::Truth(truth) => (*truth).into(),
        Json::Typed(variable) => variable.as_str().into(),
        Json::Object(members) => members.iter().map(|(name, json)| ((*name).to_owned(), value(json))).collect(),
        Json::List(values) => values.iter().map(value).collect(),
    }
}

/// Around the bodies of a program's calls.
struct Grammar {
    language: Language,
    comment: &'static str,
    /// Before the operation, with the allowed endings.
    begin: &'static str,
    ends: &'static [&'static str],
    typed: (&'static str, &'static str),
}

const GRAMMARS: [Grammar; 3] = [
    Grammar {
        language: Language::Curl,
        comment: "# ",
        begin: "",
        ends: &["' >/dev/null", "'", "' | content | base64 --decode >", "' >", "' | download "],
        typed: (r#"'"$(json "$"#, r#"")"'"#),
    },
    Grammar {
        language: Language::Python,
        comment: "    # ",
        begin: "",
        ends: &[")", "))", ")[\"content\"]))", ")[\"content\"].encode())"],
        typed: ("os.environ[\"", "\"]"),
    },
    Grammar {
        language: Language::Typescript,
        comment: "  // ",
        begin: "await ",
        ends: &[");", "));", ")));", ")).content, \"base64\"));", ")).content);"],
        typed: ("typed(\"", "\")"),
    },
];

/// One comment and one call for each step.
fn lines_of(program: &str, empty: &str) -> Vec<String> {
    let before = empty.lines().rev().find(|line| ["EXIT", "pass", "try {"].iter().any(|end| line.ends_with(end)));
    let before = before.expect("the line before the steps");
    let lines = program.lines().skip_while(|line| *line != before).skip(1);
    let ends = ["finally:", "} finally {"];
    let lines = lines.take_while(|line| !ends.contains(line)).filter(|line| !line.is_empty() && *line != "echo");
    lines.map(str::to_owned).collect()
}

/// Contract: recipes 15. Each step is one line of data below a comment of one line.
fn assert_data_only(grammar: &Grammar, label: &str, steps: &[Step]) {
    let program = grammar.language.write(label, steps, "https://api.example.com/");
    let lines = lines_of(&program, &grammar.language.write("", &[], "https://api.example.com/"));
    let planned = Program::of(label, steps, "");
    assert_eq!(lines.len(), 2 * steps.len(), "{program}");
    for (pair, call) in lines.chunks(2).zip(&planned.calls) {
        let [comment, code] = pair else { panic!("a comment and a call") };
        assert!(comment.starts_with(grammar.comment), "{comment}");
        assert!(code.chars().all(|c| matches!(c, ' '..='~')), "{code}");
        let (called, body) = match (&call.request, grammar.language) {
            (Request::Operation(operation, body), Language::Curl) => (format!("step {operation}"), body),
            (Request::Operation(operation, body), _) => (format!("step(\"{operation}"), body),
            (Request::Emulation(body), _) => ("emulate".to_owned(), body),
            _ => panic!("the strategy has no steps of pages"),
        };
        let call_begins = format!("{}{called}", grammar.begin);
        let at = code.find(&call_begins).unwrap_or_else(|| panic!("no call: {code}"));
        let data = &code[at + call_begins.len()..];
        let data = &data[data.find('{').expect("a body")..];
        // After the placeholder of a typed text is replaced by a string, the whole line must parse as one value.
        let (before, after) = grammar.typed;
        let data = match body {
            Json::Object(members) => match &members[0].1 {
                Json::Object(action) => action.iter().fold(data.to_owned(), |data, (_, member)| match member {
                    Json::Typed(name) => data.replacen(&format!("{before}{name}{after}"), &format!("\"{name}\""), 1),
                    _ => data,
                }),
                _ => data.to_owned(),
            },
            _ => data.to_owned(),
        };
        let data = ["sensitive", "checked", "accept"].iter().fold(data, |data, name| {
            let truths = [("True", "true"), ("False", "false")];
            truths
                .iter()
                .fold(data, |data, (of, to)| data.replace(&format!("\"{name}\": {of}"), &format!("\"{name}\": {to}")))
        });
        let mut values = serde_json::Deserializer::from_str(&data).into_iter::<Value>();
        assert_eq!(values.next().expect("a value").expect("JSON"), value(body), "{code}");
        let rest = &data[values.byte_offset()..];
        assert!(grammar.ends.iter().any(|end| rest.starts_with(end)), "{rest} of {code}");
    }
}

proptest! {
    #[test]
    fn customer_text_is_never_code(label in text(), steps in proptest::collection::vec(step(), 0..6)) {
        for grammar in &GRAMMARS {
            assert_data_only(grammar, &label, &steps);
        }
    }

    #[test]
    fn comment_is_one_line_without_control_characters(text in text()) {
        let shown = shown(&text);
        prop_assert!(shown.chars().all(|c| c.is_alphanumeric() || matches!(c, ' '..='~')));
        prop_assert!(shown.chars().count() <= SHOWN + 3);
    }

    #[test]
    fn variable_names_are_prefixed_and_uppercase(description in text(), selector in text()) {
        let name = variable_name(&Element { selector, description });
        prop_assert!(name.starts_with("RECIPE_") && name.len() > "RECIPE_".len() && name.len() <= 120);
        prop_assert!(name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
    }
}

/// Contract: recipes 14, 19.
#[test]
fn programs_have_steps_of_pages_dialogs_and_downloads() {
    let page = |position| Page { position, description: "page \"A\"".to_owned() };
    let steps = [
        Step::ActivatePage(page(2)),
        Step::ClosePage(page(1)),
        Step::Dialog { accept: true, text: Some("x".to_owned()) },
        Step::Wait { condition: Condition::Download },
    ];
    for (language, lines) in [
        (
            Language::Curl,
            [
                "activate_page 2 >/dev/null",
                "close_page 1 >/dev/null",
                "created=$(call POST /v1/sessions '{\"dialogs\": \"hold\"}')",
                "step wait '{\"condition\": {\"kind\": \"download\"}}' | download step-4.download",
            ],
        ),
        (
            Language::Python,
            [
                "    activate_page(2)",
                "    close_page(1)",
                "session = call(\"POST\", \"/v1/sessions\", {\"dialogs\": \"hold\"})[\"id\"]",
                "    download(\"step-4.download\", step(\"wait\", {\"condition\": {\"kind\": \"download\"}}))",
            ],
        ),
        (
            Language::Typescript,
            [
                "  await activatePage(2);",
                "  await closePage(1);",
                "const session = (await call(\"POST\", \"/v1/sessions\", {\"dialogs\": \"hold\"})).id;",
                "  await download(\"step-4.download\", await step(\"wait\", {\"condition\": {\"kind\": \"download\"}}));",
            ],
        ),
    ] {
        let program = language.write("", &steps, "http://a");
        for line in lines {
            assert!(program.lines().any(|written| written == line), "{line} in {program}");
        }
        assert!(program.contains("RECIPE_ANSWER"), "{program}");
        assert!(!language.write("", &[], "http://a").contains("hold"), "{language:?}");
    }
}

/// Contract: limits 5. Ten times the allowed number of steps take about ten times as long.
#[test]
fn program_generation_is_linear_in_the_steps() {
    let time = |steps: usize| {
        let element = Element { selector: "#a".to_owned(), description: "textbox \"Name\"".to_owned() };
        let steps = vec![Step::Type { element, value: String::new() }; steps];
        let begun = Instant::now();
        let program = Program::of("a", &steps, "http://a");
        assert_eq!(
            program.variables.last().map(|last| last.name.clone()),
            Some(format!("RECIPE_NAME_{}", steps.len()))
        );
        begun.elapsed()
    };
    let times = [1_000, 10_000].map(|steps| (0..3).map(|_| time(steps)).min().unwrap_or_default());
    assert!(times[1] < times[0] * 40 && times[1] < Duration::from_secs(20), "{times:?}");
}
