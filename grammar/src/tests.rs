//! Example messages and the commands they are parsed into.

use std::time::{Duration, Instant};

use kitfleet_types::addresses::Destinations;
use kitfleet_types::commands::{Command, ElementQuery, ParsedMessage};
use kitfleet_types::limits::Limits;

use super::{NOUNS, Rules, VERBS, print, read};

pub(super) fn reading(message: &str) -> ParsedMessage {
    let (destinations, limits) = (Destinations::default(), Limits::default());
    read(message, &Rules { destinations: &destinations, limits: &limits, max_steps: 20, max_characters: 10_000 })
}

#[track_caller]
fn understood(message: &str) -> String {
    match reading(message) {
        ParsedMessage::Plan(plan) => print(&plan),
        other => panic!("{message}: {other:?}"),
    }
}

#[track_caller]
fn asked(message: &str) -> String {
    match reading(message) {
        ParsedMessage::Clarify { reply } => reply,
        other => panic!("{message}: {other:?}"),
    }
}

#[track_caller]
fn refused(message: &str) -> String {
    match reading(message) {
        ParsedMessage::Refuse { reply } => reply,
        other => panic!("{message}: {other:?}"),
    }
}

#[track_caller]
fn each(cases: &[(&str, &str)]) {
    for (message, means) in cases {
        assert_eq!(understood(message), *means, "{message}");
    }
}

/// Contract: agent-grammar 14. The documented examples are parsed as documented, and in canonical form.
#[test]
fn documented_examples_parse_as_documented() {
    for verb in &VERBS {
        each(verb.examples);
        for (_, means) in verb.examples {
            assert_eq!(understood(means), *means, "{means}");
        }
    }
}

#[test]
fn no_phrase_means_two_things() {
    let verbs = VERBS.iter().flat_map(|verb| verb.phrases);
    let nouns = NOUNS.iter().flat_map(|noun| noun.names);
    for phrases in [verbs.collect::<Vec<_>>(), nouns.collect()] {
        let mut once = phrases.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), phrases.len());
        assert!(phrases.iter().all(|phrase| phrase.to_lowercase() == **phrase), "{phrases:?}");
    }
}

/// Contract: agent-grammar 1, 3. Separators within quotation marks do not separate steps.
#[test]
fn message_can_have_several_steps() {
    let three = "open \"https://a.example\"\ntap \"OK\"\ngo back";
    for message in [
        "open a.example\ntap \"OK\"\ngo back",
        "open a.example; tap \"OK\"; go back",
        "open a.example, tap \"OK\", go back",
        "open a.example then tap \"OK\" then go back",
        "open a.example and tap \"OK\" and go back",
        "Open a.example, and then tap OK. Go back.",
        "  PLEASE OPEN a.example ;;\r\n\n, tap “OK” , then please go back please ",
        "First, open a.example. Finally tap 'OK' and go back",
    ] {
        if message.starts_with("First") {
            assert!(asked(message).contains("“First” (line 1, character 1)"));
        } else {
            assert_eq!(understood(message), three, "{message}");
        }
    }
    each(&[
        ("tap \"a, b; c\nand then d.\"", "tap \"a, b; c\nand then d.\""),
        ("tap 'Don't save'", "tap \"Don't save\""),
        ("tap Don't save", "tap \"Don't save\""),
        ("tap ‘Don’t save’", "tap \"Don’t save\""),
        (r#"tap "say \"hi\" \\ \d""#, r#"tap "say \"hi\" \\ \\d""#),
        (r"tap 'it\'s \“x'", r#"tap "it's \\“x""#),
        ("tap Save as...", "tap \"Save as...\""),
    ]);
}

/// Contract: agent-grammar 4.
#[test]
fn elements_are_named_in_everyday_words() {
    each(&[
        ("tap the button", "tap the button"),
        ("tap button \"Go\"", "tap the button \"Go\""),
        ("tap the button labelled “Go”", "tap the button \"Go\""),
        ("tap the Go to Cart link", "tap the link \"Go to Cart\""),
        ("tap the menu button", "tap the button \"menu\""),
        ("tap the \"File\" menu item", "tap the menu item \"File\""),
        ("click into the search field", "tap the field \"search\""),
        ("tap the text \"#1 in books\"", "tap text \"#1 in books\""),
        ("tap the button with the text \".net\"", "tap the button called \".net\""),
        ("tap the \"#go\" button", "tap css \"#go\""),
        ("tap css selector \"main > a\"", "tap css \"main > a\""),
        ("tap ref e12", "tap ref \"e12\""),
        ("tap \"[href='/x, y']\"", "tap css \"[href='/x, y']\""),
        ("tap \"A\" and the \"B\" link", "tap \"A\"\ntap the link \"B\""),
        ("tap \"A\", then tap B", "tap \"A\"\ntap \"B\""),
    ]);
    let ParsedMessage::Plan(plan) = reading("select \"a\" in the Country list") else { panic!("a valid message") };
    let target = ElementQuery::Described { role: Some("combobox".to_owned()), words: "Country".to_owned() };
    assert_eq!(plan, [Command::Select { target, option: "a".to_owned() }]);
}

/// Contract: agent-grammar 5.
#[test]
fn typed_texts_are_unchanged() {
    each(&[
        ("type \"\" into \"Name\"", "type \"\" into \"Name\""),
        ("type hello  world into Name", "type \"hello  world\" into \"Name\""),
        ("type \"x\" in Sign in name", "type \"x\" into \"Sign in name\""),
        ("put 'x' into css \"#a\"", "type \"x\" into css \"#a\""),
        ("fill the Email field with ada@example.com", "fill the field \"Email\" with \"ada@example.com\""),
        ("fill \"A\" with \"1\" and \"B\" with \"2\"", "fill \"A\" with \"1\"\nfill \"B\" with \"2\""),
        ("fill \"1\" into \"A\"", "fill \"A\" with \"1\""),
        ("enter \"x\" into the field", "type \"x\" into the field"),
    ]);
    for message in [
        "type log in into Name",
        "type a in b",
        "type \"a\", \"b\" and \"c\" into \"D\"",
        "type a, b and c into D",
        "type \"a\"",
        "type into \"D\"",
        "enter",
        "fill \"A\"",
        "fill a with b with c",
        "type \"a\" \"b\" into \"D\"",
        "type \"a\" x into \"D\"",
    ] {
        let reply = asked(message);
        assert!(reply.contains("line 1, character "), "{message}: {reply}");
    }
}

/// Contract: agent-grammar 8. A reply contains no password, because it is stored longer.
#[test]
fn replies_do_not_repeat_possible_secrets() {
    for message in [
        "type \"hunter2\" and \"Password\"",
        "type hunter2",
        "type hunter2 in in Password",
        "type \"ada\" \"hunter2\" into x",
        "fill \"Password\" \"hunter2\"",
        "set \"hunter2",
        "type \"ada\" into \"Name\" and hunter2 into \"Password\"",
        "type \"ada\" into \"Name\" then \"hunter2\" into \"Password\"",
        "type \"ada\" into \"Name\" and \"hunter2\"",
        "fill \"a\" with \"b\", \"hunter2\"",
        "type hunter2; into \"Password\"",
        "type 'a' into 'b' 'hunter2'",
        "type a or hunter2 into 'b'",
    ] {
        let reply = asked(message);
        assert!(!reply.contains("hunter2"), "{message}: {reply}");
        assert!(reply.contains("line 1, character "), "{message}: {reply}");
    }
}

/// Contract: agent-grammar 6.
#[test]
fn keys_are_pressed_and_buttons_tapped() {
    each(&[
        ("press enter", "press the \"Enter\" key"),
        ("press the Enter key", "press the \"Enter\" key"),
        ("press \"Enter\" key", "press the \"Enter\" key"),
        ("press key a", "press the \"a\" key"),
        ("press the a key", "press the \"a\" key"),
        ("press the button", "tap the button"),
        ("hit Esc", "press the \"Escape\" key"),
        ("press cmd+Shift+Arrow", "tap \"cmd+Shift+Arrow\""),
        ("press F5", "press the \"F5\" key"),
        ("press the Space key", "press the \"Space\" key"),
        ("press \"Submit\"", "tap \"Submit\""),
        ("press the Enter site button", "tap the button \"Enter site\""),
        ("press C++", "tap \"C++\""),
    ]);
    for message in [
        "press a key",
        "press the key",
        "press Delete",
        "press \"Enter\"",
        "press Home",
        "press Enter in the Search field",
        "press the Foo key",
    ] {
        asked(message);
    }
    each(&[
        ("press Control++", "press the \"Control++\" key"),
        ("press shift+ctrl+a", "press the \"Shift+Control+a\" key"),
        ("press Control+Control+a", "tap \"Control+Control+a\""),
    ]);
}

/// Contract: agent-grammar 7.
#[test]
fn other_verbs_are_understood() {
    each(&[
        ("pick \"A\" from the dropdown", "select \"A\" in the dropdown"),
        ("select the option 'A' from \"B\"", "select \"A\" in \"B\""),
        ("select \"A\"", "tap \"A\""),
        ("scroll the page down", "scroll down by 600"),
        ("scroll down the page", "scroll down by 600"),
        ("scroll right by 20 down by 30 in \"List\"", "scroll right by 20 down by 30 in \"List\""),
        ("scroll down 0", "scroll down by 0"),
        ("scroll to the top of the page", "scroll up by 1000000"),
        ("wait 3s", "wait 3000 ms"),
        ("wait for 2 seconds", "wait 2000 ms"),
        ("wait 1 minute", "wait 60000 ms"),
        ("wait until \"A\" is gone", "wait for \"A\" to disappear"),
        ("wait for the spinner to go away", "wait for \"spinner\" to disappear"),
        ("wait for \"A\" and \"B\"", "wait for \"A\"\nwait for \"B\""),
        ("wait until the url contains \"a.b\"", r#"wait for the address to match "a\\.b""#),
        ("capture the screen", "take a screenshot"),
        ("take a DOM snapshot", "take a DOM snapshot"),
        ("extract the Total", "extract \"Total\" as \"Total\""),
        ("read the heading", "extract the heading as \"heading\""),
        ("get the \"data-id\" attribute of \"Row\" as id", "extract the attribute \"data-id\" of \"Row\" as \"id\""),
        ("get all links as links", "extract all links as \"links\""),
        ("get the href of all links", "extract the attribute \"href\" of all links as \"link\""),
        ("extract all \".item\" as items", "extract all css \".item\" as \"items\""),
        ("go back to the previous page", "go back"),
        ("refresh", "reload"),
    ]);
    for message in [
        "scroll",
        "scroll down up",
        "scroll down by -5",
        "scroll down by 1000001",
        "scroll \"A\" down in \"B\"",
        "wait",
        "wait 3",
        "wait 1e3 seconds",
        "wait 61 seconds",
        "wait 99999999999999999999999999 s",
        "take a break",
        "take a screenshot of \"A\"",
        "extract \"A\" as x and \"B\" as x",
        "select \"A\" and \"B\" in \"List\"",
        "choose Log in here",
        "extract",
        "go back home",
    ] {
        asked(message);
    }
}

/// Contract: agent-grammar 15.
#[test]
fn dates_are_read_if_they_have_one_meaning() {
    for date in [
        "2026-12-24",
        "2026/12/24",
        "24 December 2026",
        "24 dec 2026",
        "24th of December 2026",
        "December 24 2026",
        "\"December 24, 2026\"",
        "\"24. December 2026\"",
        "24.12.2026",
        "12/24/2026",
        "24/12/2026",
    ] {
        let said = format!("set the date \"Departure\" to {date}");
        assert_eq!(understood(&said), "fill \"Departure\" with \"2026-12-24\"", "{said}");
    }
    each(&[
        ("set the date \"A\" to 5/5/2026", "fill \"A\" with \"2026-05-05\""),
        ("set the date \"A\" to 29 February 2028", "fill \"A\" with \"2028-02-29\""),
        ("enter the date 2026-12-24 into the Start field", "fill the field \"Start\" with \"2026-12-24\""),
    ]);
    assert!(asked("set the date \"A\" to 5/6/2026").contains("could be two dates"));
    for date in
        ["2026-13-01", "29 February 2026", "31 April 2026", "24-12-26", "tomorrow", "2026-12", "24 Foo 2026", ""]
    {
        asked(&format!("set the date \"A\" to {date}"));
    }
}

/// Contract: agent-grammar 15, 16.
#[test]
fn gestures_are_understood() {
    each(&[
        ("drag the \"A\" image onto the \"B\" link", "drag the image \"A\" to the link \"B\""),
        ("drag css \".knob\" left by 40px up by 3", "drag css \".knob\" left by 40 up by 3"),
        ("drag the Volume slider down 5", "drag the slider \"Volume\" down by 5"),
        ("swipe left by 200 pixels", "swipe left by 200"),
        ("swipe down on the page", "swipe down"),
        ("hover \"Menu\"", "hover over \"Menu\""),
        ("double-click \"A\" and \"B\"", "double tap \"A\"\ndouble tap \"B\""),
        ("hold the photo", "long press the image"),
        ("set my location to 47.3769 8.5417", "set the location to 47.3769, 8.5417"),
        ("set the location to 1, 2, go back", "set the location to 1, 2\ngo back"),
        ("go forward to the next page", "go forward"),
        (
            "switch on \"Wi-Fi\", turn off the \"Sound\" toggle",
            "check the switch \"Wi-Fi\"\nuncheck the switch \"Sound\"",
        ),
    ]);
    for message in [
        "drag \"A\"",
        "drag \"A\" right",
        "drag \"A\" right by 5 left by 3",
        "drag \"A\" right by 5001",
        "drag log in to cart to basket",
        "swipe",
        "swipe left by 9",
        "swipe left right",
        "set the location to 52.52",
        "set the location to 91, 0",
        "set the location to 0, 181",
        "set the location to Berlin",
        "set the location to 1, 2, 3",
        "tap \"A\", 1, 2",
        "turn on",
    ] {
        asked(message);
    }
}

/// Contract: agent-grammar 17.
#[test]
fn pages_and_dialogs_are_understood() {
    each(&[
        ("accept this dialog, dismiss the alert", "accept the dialog\ndismiss the dialog"),
        ("answer the prompt with Ada", "answer the dialog with \"Ada\""),
        ("switch to the tab called \"Cart\"", "switch to the page \"Cart\""),
        ("go to the other window", "switch to the other page"),
        ("close the other tab", "close the other page"),
        ("close the \"Cart\" tab", "close the page \"Cart\""),
        ("close the current page", "close this page"),
        ("wait for the download to finish", "wait for a download"),
        ("wait until a new tab opens", "wait for a new page"),
        ("wait for the \"Download\" link", "wait for the link \"Download\""),
        ("wait for \"download\"", "wait for \"download\""),
        ("go to https://a.example", "open \"https://a.example\""),
    ]);
    for message in [
        "accept",
        "accept the cookies",
        "accept the dialog now",
        "answer the dialog with",
        "switch to",
        "switch to \"Cart\"",
        "switch to the cart",
        "switch to the page \"\"",
        "switch to the page ref e1",
        "close",
        "close the popup",
        "close it",
        "go to the other page \"x\"",
    ] {
        asked(message);
    }
    assert!(!asked("answer the dialog with \"hunter2\" \"x\"").contains("hunter2"));
    assert!(!asked("answer the dialog with hunter2 or x").contains("hunter2"));
}

/// Contract: agent-grammar 9. A wrong guess could change the customer's account.
#[test]
fn ambiguous_message_is_clarified() {
    for (message, place) in [
        ("frobnicate", "“frobnicate” (line 1, character 1)"),
        ("open example.com\nfrobnicate it", "“frobnicate” (line 2, character 1)"),
        ("tap Terms and Conditions", "“Conditions” (line 1, character 15)"),
        ("tap the first link", "“first” (line 1, character 9)"),
        ("tap it", "“it” (line 1, character 5)"),
        ("tap OK or Cancel", "“or” (line 1, character 8)"),
        ("tap button Sign in", "“button” (line 1, character 5)"),
        ("tap Menu", "“Menu” (line 1, character 5)"),
        ("tap the \"OK\" thing", "“thing” (line 1, character 14)"),
        ("tap big \"OK\"", "“big” (line 1, character 5)"),
        ("tap \"\"", "the text at line 1, character 5"),
        ("tap Login; SEC-15", "I do not understand the text at line 1, character 12"),
        ("tap Login; hunterTwo", "I do not understand the text at line 1, character 12"),
        ("tap \"OK", "“\"” (line 1, character 5)"),
        ("tap", "“tap” (line 1, character 1) does not name an element"),
        ("open", "missing after “open” (line 1, character 1)"),
        ("scroll \"A\"", "missing after the text at line 1, character 8"),
        ("open settings", "“settings” (line 1, character 6)"),
        ("open 5", "“5” (line 1, character 6)"),
        ("öffne, bitte", "“öffne” (line 1, character 1)"),
        ("tap “Ü”, xyz", "“xyz” (line 1, character 10)"),
        ("", "line 1, character 1"),
        (", ; \n and", "line 1, character 1"),
    ] {
        let reply = asked(message);
        assert!(reply.contains(place), "{message}: {reply}");
        assert!(reply.contains("For example:"), "{reply}");
    }
}

/// Contract: agent-grammar 10, 11.
#[test]
fn unsupported_requests_are_refused() {
    for message in [
        "open javascript:alert(1)",
        "open file:///etc/passwd",
        "open \"data:text/html,x\"",
        "open ftp://example.com",
        "open http://127.0.0.1/",
        "open 10.0.0.1",
        "open localhost",
        "open http://localhost:3000/x",
        "open [::1]:80",
        "open 0x7f.1",
        "open http://2130706433/",
        "open http://a.localhost./",
        "tap \"x\" and open http://169.254.169.254/latest",
        "solve the captcha",
        "bypass the reCAPTCHA",
    ] {
        assert!(refused(message).contains("Nothing was done"), "{message}");
    }
    asked("solve the riddle");
    each(&[
        ("open example.com:8080", "open \"https://example.com:8080\""),
        ("open 1.1.1.1", "open \"https://1.1.1.1\""),
        ("open http://welcome.kitfleet.internal/", "open \"http://welcome.kitfleet.internal/\""),
        ("open bücher.example", "open \"https://bücher.example\""),
    ]);
    let destinations = Destinations { allow_private: true, ..Destinations::default() };
    let limits = Limits::default();
    let rules = Rules { destinations: &destinations, limits: &limits, max_steps: 20, max_characters: 10_000 };
    assert!(matches!(read("open http://localhost:3000", &rules), ParsedMessage::Plan(_)));
}

/// Contract: agent-grammar 2. A message is accepted as a whole or not at all.
#[test]
fn message_has_at_most_20_steps_and_10000_characters() {
    let steps = |count: usize| vec!["go back"; count].join("; ");
    assert!(matches!(reading(&steps(20)), ParsedMessage::Plan(plan) if plan.len() == 20));
    assert!(asked(&steps(21)).contains("at most 20"));
    let text = |characters: usize| format!("type \"{}\" into \"A\"", "ä".repeat(characters - 16));
    assert!(matches!(reading(&text(10_000)), ParsedMessage::Plan(_)));
    assert!(asked(&text(10_001)).contains("at most 10000 characters"));
    let selector = format!("tap css \"{}\"", "a".repeat(4_097));
    assert!(asked(&selector).contains("a selector of more than 4096 characters"));
    assert!(asked(&format!("extract \"A\" as {}", "n".repeat(121))).contains("a name of more than 120"));
}

/// Contract: agent-grammar 2. A hostile message must not slow down other customers.
#[test]
fn parsing_time_is_linear_in_the_message() {
    // An unoptimized build takes ten times as long, on a machine that runs other work too.
    let max = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 10 });
    let cut = |message: String| message.chars().take(10_000).collect::<String>();
    let repeated = |text: &str| text.repeat(10_000 / text.chars().count() + 1);
    let texts = [
        "\"",
        "'",
        "\"\"",
        "'a",
        "“",
        "”",
        ",",
        ";",
        "\n",
        "and ",
        "then,",
        "a ",
        "the ",
        "\\\"",
        ".",
        "tap a,",
        "tap 'a',",
        "\"a\",",
        "in ",
        "into in ",
        "with to ",
        "as ",
        "drop down ",
        "to appear ",
        "all the ",
        "down by 1 ",
        "key ",
        "tap ",
    ];
    let verbs =
        ["tap ", "type x ", "fill ", "select ", "wait for ", "extract ", "scroll ", "press ", "open ", "\"", "tap 'a"];
    let begun = verbs.iter().flat_map(|verb| texts.iter().map(move |text| format!("{verb}{}", repeated(text))));
    for message in texts.iter().map(|text| repeated(text)).chain(begun).map(cut) {
        let quickest = (0..5).map(|_| {
            let started = Instant::now();
            let _ = reading(&message);
            started.elapsed()
        });
        let elapsed = quickest.min().unwrap_or_default();
        assert!(elapsed < max, "{elapsed:?} for {}…", message.chars().take(20).collect::<String>());
    }
}
