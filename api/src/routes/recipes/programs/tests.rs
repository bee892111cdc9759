//! The code of a program is constant, whatever texts a page and its customer supply.

use std::time::{Duration, Instant};

use kitfleet_domain::operations::{self, Target};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Texts that try to be executed as code.
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
        Just(Step::Back),
        Just(Step::Reload),
    ]
}

/// Body as the service receives it, with the variable's name in place of a typed text.
fn value(json: &Json) -> Value {
    match json {
        Json::Text(text) => (*text).into(),
        Json::Number(number) => (*number).into(),
        Json::True => true.into(),
        Json::Typed(variable) => variable.as_str().into(),
        Json::Object(members) => members.iter().map(|(name, json)| ((*name).to_owned(), value(json))).collect(),
        Json::List(values) => values.iter().map(value).collect(),
    }
}

/// Allowed syntax around the bodies of a program's calls.
struct Grammar {
    language: Language,
    comment: &'static str,
    /// Beginning of a call before its operation, and its allowed endings.
    begin: &'static str,
    ends: &'static [&'static str],
    /// Syntax around a typed text.
    typed: (&'static str, &'static str),
}

const GRAMMARS: [Grammar; 3] = [
    Grammar {
        language: Language::Curl,
        comment: "# ",
        begin: "step ",
        ends: &["' >/dev/null", "'", "' | content | base64 --decode >", "' >"],
        typed: (r#"'"$(json "$"#, r#"")"'"#),
    },
    Grammar {
        language: Language::Python,
        comment: "    # ",
        begin: "step(\"",
        ends: &[")", "))", ")[\"content\"]))", ")[\"content\"].encode())"],
        typed: ("os.environ[\"", "\"]"),
    },
    Grammar {
        language: Language::Typescript,
        comment: "  // ",
        begin: "await step(\"",
        ends: &[");", ")));", ")).content, \"base64\"));", ")).content);"],
        typed: ("typed(\"", "\")"),
    },
];

/// Lines of a program that represent its steps: one comment and one call each.
fn lines_of(program: &str, empty: &str) -> Vec<String> {
    let before = empty.lines().rev().find(|line| ["EXIT", "pass", "try {"].iter().any(|end| line.ends_with(end)));
    let before = before.expect("the line before the steps");
    let lines = program.lines().skip_while(|line| *line != before).skip(1);
    let ends = ["finally:", "} finally {"];
    let lines = lines.take_while(|line| !ends.contains(line)).filter(|line| !line.is_empty() && *line != "echo");
    lines.map(str::to_owned).collect()
}

/// Contract: recipes 15. Each step is one line of data in the syntax of the language, below a comment of one line.
fn assert_data_only(grammar: &Grammar, label: &str, steps: &[Step]) {
    let program = grammar.language.write(label, steps, "https://api.example.com/");
    let lines = lines_of(&program, &grammar.language.write("", &[], "https://api.example.com/"));
    let planned = Program::of(label, steps, "");
    assert_eq!(lines.len(), 2 * steps.len(), "{program}");
    for (pair, call) in lines.chunks(2).zip(&planned.calls) {
        let [comment, code] = pair else { panic!("a comment and a call") };
        assert!(comment.starts_with(grammar.comment), "{comment}");
        assert!(code.chars().all(|c| matches!(c, ' '..='~')), "{code}");
        let call_begins = format!("{}{}", grammar.begin, call.operation);
        let at = code.find(&call_begins).unwrap_or_else(|| panic!("no call: {code}"));
        let data = &code[at + call_begins.len()..];
        let data = &data[data.find('{').expect("a body")..];
        // After the placeholder of a typed text is replaced by a string, the whole line must parse as one value.
        let (before, after) = grammar.typed;
        let data = match &call.body {
            Json::Object(members) => match &members[0].1 {
                Json::Object(action) => action.iter().fold(data.to_owned(), |data, (_, member)| match member {
                    Json::Typed(name) => data.replacen(&format!("{before}{name}{after}"), &format!("\"{name}\""), 1),
                    _ => data,
                }),
                _ => data.to_owned(),
            },
            _ => data.to_owned(),
        };
        let data = data.replace("\"sensitive\": True", "\"sensitive\": true");
        let mut values = serde_json::Deserializer::from_str(&data).into_iter::<Value>();
        assert_eq!(values.next().expect("a value").expect("JSON"), value(&call.body), "{code}");
        let rest = &data[values.byte_offset()..];
        assert!(grammar.ends.iter().any(|end| rest.starts_with(end)), "{rest} of {code}");
    }
}

proptest! {
    #[test]
    fn whatever_somebody_wrote_is_data(label in text(), steps in proptest::collection::vec(step(), 0..6)) {
        for grammar in &GRAMMARS {
            assert_data_only(grammar, &label, &steps);
        }
    }

    #[test]
    fn a_comment_is_one_line_that_shows(text in text()) {
        let shown = shown(&text);
        prop_assert!(shown.chars().all(|c| c.is_alphanumeric() || matches!(c, ' '..='~')));
        prop_assert!(shown.chars().count() <= SHOWN + 3);
    }

    #[test]
    fn a_variable_is_ours_and_no_others(description in text(), selector in text()) {
        let name = variable_name(&Element { selector, description });
        prop_assert!(name.starts_with("RECIPE_") && name.len() > "RECIPE_".len() && name.len() <= 120);
        prop_assert!(name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'));
    }
}

/// Contract: limits 5. Ten times the allowed number of steps, all into fields of one name, take about ten times as long.
#[test]
fn writing_a_program_takes_time_that_is_linear_in_the_steps() {
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
