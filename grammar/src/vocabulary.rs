//! The vocabulary of the grammar. The parser uses these tables, and the documentation is generated from them.

use std::collections::HashSet;
use std::sync::LazyLock;

use kitfleet_types::operations::{CaptureKind, Direction};

#[derive(Debug, PartialEq, Eq)]
pub struct Verb {
    pub(super) act: StepSyntax,
    pub title: &'static str,
    /// The longest matching phrase is used.
    pub phrases: &'static [&'static str],
    pub about: &'static str,
    /// Example messages with their canonical form ([`super::print`]).
    pub examples: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepSyntax {
    Open,
    Tap,
    DoubleTap,
    LongPress,
    Check,
    TurnOn,
    TurnOff,
    Type,
    Fill,
    Clear,
    SetDate,
    Press,
    Choose,
    Drag,
    Swipe,
    Hover,
    Scroll,
    Wait,
    Capture,
    Extract,
    Back,
    Forward,
    Reload,
    AcceptDialog,
    DismissDialog,
    AnswerDialog,
    SwitchPage,
    ClosePage,
    SetLocation,
    Upload,
    Solve,
}

impl StepSyntax {
    /// Words after such a step may be a text.
    pub(super) fn enters_text(self) -> bool {
        matches!(self, Self::Type | Self::Fill | Self::Clear | Self::SetDate | Self::AnswerDialog)
    }
}

/// All verbs. The last one is recognized only to be refused.
pub static VERBS: [Verb; 31] = [
    Verb {
        act: StepSyntax::Open,
        title: "Open a page",
        phrases: &["open", "go to", "visit", "navigate to", "browse to", "load"],
        about: "An address without a scheme is taken as https. Only http and https are opened, and no private address. An \
                address with a comma or a semicolon must be in quotes.",
        examples: &[
            ("open example.com", r#"open "https://example.com""#),
            ("Go to https://example.com/shoes?size=42", r#"open "https://example.com/shoes?size=42""#),
            ("visit “example.com/a,b”", r#"open "https://example.com/a,b""#),
        ],
    },
    Verb {
        act: StepSyntax::Tap,
        title: "Tap",
        phrases: &["tap", "tap on", "click", "click on", "touch", "push", "toggle"],
        about: "An element is identified by its kind, its name, or both.",
        examples: &[
            (r"tap the 'Sign in' button", r#"tap the button "Sign in""#),
            ("click the Sign in button", r#"tap the button "Sign in""#),
            ("tap “More”", r#"tap "More""#),
            (r#"tap the link called "Terms and conditions""#, r#"tap the link "Terms and conditions""#),
            (r##"tap "#menu .item""##, r##"tap css "#menu .item""##),
            ("tap css main>a", r#"tap css "main>a""#),
            (r#"tap "Red", "Green" and "Blue""#, "tap \"Red\"\ntap \"Green\"\ntap \"Blue\""),
        ],
    },
    Verb {
        act: StepSyntax::DoubleTap,
        title: "Double tap",
        phrases: &["double tap", "double-tap", "double tap on", "double click", "double-click", "double click on"],
        about: "Two taps in quick succession.",
        examples: &[(r#"double tap the "Map" image"#, r#"double tap the image "Map""#)],
    },
    Verb {
        act: StepSyntax::LongPress,
        title: "Long press",
        phrases: &["long press", "long-press", "long press on", "long tap", "long tap on", "hold"],
        about: "A finger stays on the element for 800 ms.",
        examples: &[(r#"long press "Photo 1""#, r#"long press "Photo 1""#)],
    },
    Verb {
        act: StepSyntax::Check,
        title: "Check or uncheck",
        phrases: &["check", "uncheck", "tick", "untick"],
        about: "An element that is already checked stays checked. Without a kind, the command finds a checkbox.",
        examples: &[
            (r#"check "I agree""#, r#"check the checkbox "I agree""#),
            ("uncheck the Newsletter checkbox", r#"uncheck the checkbox "Newsletter""#),
        ],
    },
    Verb {
        act: StepSyntax::TurnOn,
        title: "Turn on",
        phrases: &["turn on", "switch on", "toggle on"],
        about: "The same as checking. Without a kind, the command finds a switch.",
        examples: &[(r#"turn on "Wi-Fi""#, r#"check the switch "Wi-Fi""#)],
    },
    Verb {
        act: StepSyntax::TurnOff,
        title: "Turn off",
        phrases: &["turn off", "switch off", "toggle off"],
        about: "The same as unchecking. Without a kind, the command finds a switch.",
        examples: &[("turn off the Newsletter checkbox", r#"uncheck the checkbox "Newsletter""#)],
    },
    Verb {
        act: StepSyntax::Type,
        title: "Type",
        phrases: &["type", "type in", "enter", "write", "input", "put"],
        about: "A text that contains a comma, a semicolon, “and” or “then” must be in quotes.",
        examples: &[
            (r#"type "ada@example.com" into the "Email" field"#, r#"type "ada@example.com" into the field "Email""#),
            ("enter hello in the search field", r#"type "hello" into the field "search""#),
            (r#"type "a, b and c" into "Notes""#, r#"type "a, b and c" into "Notes""#),
            (
                r#"type "ada" into "Name" and "secret" into "Password""#,
                "type \"ada\" into \"Name\"\ntype \"secret\" into \"Password\"",
            ),
        ],
    },
    Verb {
        act: StepSyntax::Fill,
        title: "Fill in",
        phrases: &["fill", "fill in", "fill out", "set"],
        about: "Replaces the content of a field. Fields for dates, times, numbers, colors and sliders take their value in the form of \
                HTML.",
        examples: &[
            (r#"fill in the Email field with "ada@example.com""#, r#"fill the field "Email" with "ada@example.com""#),
            (r#"set "Quantity" to "2""#, r#"fill "Quantity" with "2""#),
            (r#"set "Start" to "14:30""#, r#"fill "Start" with "14:30""#),
        ],
    },
    Verb {
        act: StepSyntax::Clear,
        title: "Clear",
        phrases: &["clear", "empty"],
        about: "Removes the content of a field.",
        examples: &[(r#"clear the "Search" field"#, r#"fill the field "Search" with """#)],
    },
    Verb {
        act: StepSyntax::SetDate,
        title: "Choose a date",
        phrases: &["set the date", "set date", "choose the date", "pick the date", "enter the date"],
        about: "A date is written as year, month and day, or with the name of the month. Other spellings are accepted if they can \
                only mean one date.",
        examples: &[
            (r#"set the date "Departure" to 2026-12-24"#, r#"fill "Departure" with "2026-12-24""#),
            (r#"set the date "Departure" to 24 December 2026"#, r#"fill "Departure" with "2026-12-24""#),
            (r#"choose the date "Dec 24, 2026" in the Return field"#, r#"fill the field "Return" with "2026-12-24""#),
        ],
    },
    Verb {
        act: StepSyntax::Press,
        title: "Press a key",
        phrases: &["press", "press on", "hit"],
        about: "A key goes to the focused element. Any other name is tapped. Keys whose names are often those of buttons \
                (Delete, End, Home, Insert, Space) and single characters are keys together with the word “key”.",
        examples: &[
            ("press Enter", r#"press the "Enter" key"#),
            ("hit the down arrow key", r#"press the "ArrowDown" key"#),
            ("press Ctrl+A", r#"press the "Control+a" key"#),
            ("press Shift+Tab", r#"press the "Shift+Tab" key"#),
            ("press the Delete key", r#"press the "Delete" key"#),
            ("press the Delete button", r#"tap the button "Delete""#),
        ],
    },
    Verb {
        act: StepSyntax::Choose,
        title: "Choose",
        phrases: &["choose", "select", "pick"],
        about: "With a list, an option of it is selected. Without one, the named element is tapped.",
        examples: &[
            (r#"select "Germany" in the "Country" list"#, r#"select "Germany" in the dropdown "Country""#),
            (r#"choose Large from "Size""#, r#"select "Large" in "Size""#),
            (r#"choose the "Express" radio button"#, r#"tap the radio "Express""#),
        ],
    },
    Verb {
        act: StepSyntax::Drag,
        title: "Drag",
        phrases: &["drag", "move"],
        about: "Drags an element to another one, or by a number of CSS pixels in one or two directions.",
        examples: &[
            (r#"drag "Milk" to "Done""#, r#"drag "Milk" to "Done""#),
            (r#"drag the "Price" slider right by 80 pixels"#, r#"drag the slider "Price" right by 80"#),
        ],
    },
    Verb {
        act: StepSyntax::Swipe,
        title: "Swipe",
        phrases: &["swipe"],
        about: "The direction is that of the finger. Without a number, the finger moves over most of the page or the element.",
        examples: &[
            ("swipe left", "swipe left"),
            (r#"swipe up by 300 on the "Stories" list"#, r#"swipe up by 300 on the dropdown "Stories""#),
        ],
    },
    Verb {
        act: StepSyntax::Hover,
        title: "Hover",
        phrases: &["hover", "hover over", "hover on", "point at", "point to"],
        about: "Moves a mouse to the element, and presses nothing.",
        examples: &[(r#"hover over the "Products" link"#, r#"hover over the link "Products""#)],
    },
    Verb {
        act: StepSyntax::Scroll,
        title: "Scroll",
        phrases: &["scroll"],
        about: "Distances are in CSS pixels. Without a number, the page scrolls by most of a screen.",
        examples: &[
            ("scroll down", "scroll down by 600"),
            ("scroll up by 200 pixels", "scroll up by 200"),
            ("scroll to the bottom", "scroll down by 1000000"),
            (r##"scroll "#list" right by 50"##, r##"scroll right by 50 in css "#list""##),
        ],
    },
    Verb {
        act: StepSyntax::Wait,
        title: "Wait",
        phrases: &["wait", "wait for", "wait until", "wait till"],
        about: "For something to appear or to disappear, for an address that matches a regular expression or contains a text, for \
                a download, for a new page of the browser, or for some time.",
        examples: &[
            (r#"wait for "Welcome""#, r#"wait for "Welcome""#),
            ("wait until the Loading image disappears", r#"wait for the image "Loading" to disappear"#),
            (r#"wait for the address to match "/orders/\d+$""#, r#"wait for the address to match "/orders/\\d+$""#),
            (r#"wait until the url contains "done""#, r#"wait for the address to match "done""#),
            ("wait for the download", "wait for a download"),
            ("wait for a page to open", "wait for a new page"),
            ("wait 1.5 seconds", "wait 1500 ms"),
        ],
    },
    Verb {
        act: StepSyntax::Capture,
        title: "Take a picture",
        phrases: &["take", "make", "capture", "screenshot"],
        about: "Captures the page as a picture.",
        examples: &[
            ("take a screenshot", "take a screenshot"),
            ("take a picture of the page", "take a screenshot"),
            ("screenshot", "take a screenshot"),
            ("make a PDF of the page", "take a PDF"),
        ],
    },
    Verb {
        act: StepSyntax::Extract,
        title: "Read",
        phrases: &["extract", "read", "get"],
        about: "Reads a text, an attribute, or the texts of all matches. The name after “as” is the key of the value in the response.",
        examples: &[
            (r#"extract the text of ".price" as price"#, r#"extract css ".price" as "price""#),
            (
                r#"get the href of the "Next" link as next"#,
                r#"extract the attribute "href" of the link "Next" as "next""#,
            ),
            ("read all headings as titles", r#"extract all headings as "titles""#),
            (
                r##"extract "#name" as name and "#total" as total"##,
                r##"extract css "#name" as "name" and css "#total" as "total""##,
            ),
        ],
    },
    Verb {
        act: StepSyntax::Back,
        title: "Go back",
        phrases: &["go back", "back", "navigate back"],
        about: "Returns to the previous page.",
        examples: &[("go back", "go back")],
    },
    Verb {
        act: StepSyntax::Forward,
        title: "Go forward",
        phrases: &["go forward", "forward", "navigate forward"],
        about: "Returns to the page from which the browser went back.",
        examples: &[("go forward", "go forward")],
    },
    Verb {
        act: StepSyntax::Reload,
        title: "Reload",
        phrases: &["reload", "refresh"],
        about: "Loads the page from its server again.",
        examples: &[("reload the page", "reload")],
    },
    Verb {
        act: StepSyntax::AcceptDialog,
        title: "Accept a dialog",
        phrases: &[
            "accept the dialog",
            "accept dialog",
            "accept this dialog",
            "accept the alert",
            "accept the confirmation",
            "accept the prompt",
            "confirm the dialog",
        ],
        about: "Answers OK to a dialog of a page: an alert, a confirmation, a prompt, or the question whether to leave the page.",
        examples: &[("accept the dialog", "accept the dialog")],
    },
    Verb {
        act: StepSyntax::DismissDialog,
        title: "Dismiss a dialog",
        phrases: &[
            "dismiss the dialog",
            "dismiss dialog",
            "dismiss this dialog",
            "dismiss the alert",
            "dismiss the confirmation",
            "dismiss the prompt",
            "cancel the dialog",
        ],
        about: "Answers a dialog of a page with Cancel.",
        examples: &[("dismiss the dialog", "dismiss the dialog")],
    },
    Verb {
        act: StepSyntax::AnswerDialog,
        title: "Answer a dialog",
        phrases: &["answer the dialog with", "answer dialog with", "answer the prompt with", "answer this dialog with"],
        about: "Enters a text into a prompt of a page, and accepts it.",
        examples: &[(r#"answer the dialog with "Ada""#, r#"answer the dialog with "Ada""#)],
    },
    Verb {
        act: StepSyntax::SwitchPage,
        title: "Switch to another page",
        phrases: &["switch to", "change to", "go to the other page", "go to the other tab", "go to the other window"],
        about: "Makes another page of the browser the active one. A page is named by a part of its title or address.",
        examples: &[
            (r#"switch to the page "Sign in""#, r#"switch to the page "Sign in""#),
            (r#"switch to the "shop.example" tab"#, r#"switch to the page "shop.example""#),
            ("go to the other tab", "switch to the other page"),
        ],
    },
    Verb {
        act: StepSyntax::ClosePage,
        title: "Close a page",
        phrases: &["close"],
        about: "Closes the active page, or a page that is named. The last page of a browser stays open.",
        examples: &[
            ("close this tab", "close this page"),
            (r#"close the page "Sign in""#, r#"close the page "Sign in""#),
        ],
    },
    Verb {
        act: StepSyntax::SetLocation,
        title: "Set the location",
        phrases: &[
            "set the location to",
            "set location to",
            "set my location to",
            "set the position to",
            "set the geolocation to",
        ],
        about: "Sets the position that pages see: degrees of latitude and longitude.",
        examples: &[
            ("set the location to 52.52, 13.40", "set the location to 52.52, 13.4"),
            (r#"set the location to "-33.9, 18.4""#, "set the location to -33.9, 18.4"),
        ],
    },
    Verb {
        act: StepSyntax::Upload,
        title: "Upload a file",
        phrases: &["upload", "attach"],
        about: "Gives a file that is attached to the agent session to a field for files, or to a button that asks for one.",
        examples: &[(r#"upload "cv.pdf" into "Resume""#, r#"upload "cv.pdf" into "Resume""#)],
    },
    Verb {
        act: StepSyntax::Solve,
        title: "Captchas",
        phrases: &["solve", "bypass", "crack", "defeat"],
        about: "Solving captchas is not supported.",
        examples: &[],
    },
];

#[derive(Debug)]
pub struct Noun {
    /// `None` matches any.
    pub role: Option<&'static str>,
    /// The first is the canonical one.
    pub names: &'static [&'static str],
    pub(super) plurals: &'static [&'static str],
}

pub static NOUNS: [Noun; 25] = [
    Noun { role: Some("button"), names: &["button"], plurals: &["buttons"] },
    Noun { role: Some("link"), names: &["link", "hyperlink"], plurals: &["links", "hyperlinks"] },
    Noun {
        role: Some("textbox"),
        names: &["field", "box", "input", "textbox", "text box", "text field", "input field", "text area", "textarea"],
        plurals: &[
            "fields",
            "boxes",
            "inputs",
            "textboxes",
            "text boxes",
            "text fields",
            "input fields",
            "text areas",
            "textareas",
        ],
    },
    Noun { role: Some("searchbox"), names: &["searchbox", "search box"], plurals: &["searchboxes", "search boxes"] },
    Noun {
        role: Some("checkbox"),
        names: &["checkbox", "check box", "tick box", "tickbox"],
        plurals: &["checkboxes", "check boxes", "tick boxes", "tickboxes"],
    },
    Noun {
        role: Some("radio"),
        names: &["radio", "radio button", "radio box"],
        plurals: &["radios", "radio buttons", "radio boxes"],
    },
    Noun { role: Some("tab"), names: &["tab"], plurals: &["tabs"] },
    Noun {
        role: Some("menuitem"),
        names: &["menu item", "menuitem", "menu entry"],
        plurals: &["menu items", "menuitems", "menu entries"],
    },
    Noun { role: Some("menu"), names: &["menu"], plurals: &["menus"] },
    Noun {
        role: Some("heading"),
        names: &["heading", "headline", "header"],
        plurals: &["headings", "headlines", "headers"],
    },
    Noun {
        role: Some("combobox"),
        names: &["dropdown", "drop-down", "drop down", "combobox", "combo box", "list", "select box", "picker"],
        plurals: &[
            "dropdowns",
            "drop-downs",
            "drop downs",
            "comboboxes",
            "combo boxes",
            "lists",
            "select boxes",
            "pickers",
        ],
    },
    Noun { role: Some("listbox"), names: &["listbox", "list box"], plurals: &["listboxes", "list boxes"] },
    Noun { role: Some("option"), names: &["option"], plurals: &["options"] },
    Noun { role: Some("listitem"), names: &["list item", "listitem"], plurals: &["list items", "listitems"] },
    Noun { role: Some("switch"), names: &["switch", "toggle"], plurals: &["switches", "toggles"] },
    Noun { role: Some("slider"), names: &["slider"], plurals: &["sliders"] },
    Noun {
        role: Some("spinbutton"),
        names: &["spinbutton", "number field"],
        plurals: &["spinbuttons", "number fields"],
    },
    Noun {
        role: Some("img"),
        names: &["image", "picture", "img", "photo"],
        plurals: &["images", "pictures", "imgs", "photos"],
    },
    Noun {
        role: Some("dialog"),
        names: &["dialog", "popup", "pop-up", "modal"],
        plurals: &["dialogs", "popups", "pop-ups", "modals"],
    },
    Noun { role: Some("alert"), names: &["alert", "message"], plurals: &["alerts", "messages"] },
    Noun { role: Some("table"), names: &["table"], plurals: &["tables"] },
    Noun { role: Some("row"), names: &["row"], plurals: &["rows"] },
    Noun { role: Some("cell"), names: &["cell"], plurals: &["cells"] },
    Noun { role: Some("form"), names: &["form"], plurals: &["forms"] },
    Noun { role: None, names: &["element", "text"], plurals: &["elements", "texts"] },
];

#[derive(Debug)]
pub struct KeyName {
    pub key: &'static str,
    pub names: &'static [&'static str],
    /// The name means the key without the word “key”, because buttons rarely have this name.
    pub(super) alone: bool,
}

pub static KEYS: [KeyName; 15] = [
    KeyName { key: "Enter", names: &["enter", "return"], alone: true },
    KeyName { key: "Tab", names: &["tab"], alone: true },
    KeyName { key: "Escape", names: &["escape", "esc"], alone: true },
    KeyName { key: "Backspace", names: &["backspace"], alone: true },
    KeyName { key: "ArrowUp", names: &["arrowup", "arrow up", "up arrow"], alone: true },
    KeyName { key: "ArrowDown", names: &["arrowdown", "arrow down", "down arrow"], alone: true },
    KeyName { key: "ArrowLeft", names: &["arrowleft", "arrow left", "left arrow"], alone: true },
    KeyName { key: "ArrowRight", names: &["arrowright", "arrow right", "right arrow"], alone: true },
    KeyName { key: "PageUp", names: &["pageup", "page up"], alone: true },
    KeyName { key: "PageDown", names: &["pagedown", "page down"], alone: true },
    KeyName { key: "Delete", names: &["delete", "del"], alone: false },
    KeyName { key: "End", names: &["end"], alone: false },
    KeyName { key: "Home", names: &["home"], alone: false },
    KeyName { key: "Insert", names: &["insert"], alone: false },
    KeyName { key: "Space", names: &["space", "space bar", "spacebar"], alone: false },
];

/// Modifier keys: name in the browser, and names that people use.
pub static MODIFIERS: [(&str, &[&str]); 4] = [
    ("Control", &["control", "ctrl"]),
    ("Shift", &["shift"]),
    ("Alt", &["alt", "option"]),
    ("Meta", &["meta", "cmd", "command"]),
];

pub(super) static CAPTURES: [(CaptureKind, &[&str]); 3] = [
    (
        CaptureKind::Screenshot,
        &["screenshot", "screen shot", "picture", "photo", "snapshot", "image", "page", "screen"],
    ),
    (CaptureKind::Pdf, &["PDF"]),
    (CaptureKind::DomSnapshot, &["DOM snapshot"]),
];

/// Phrases that precede a name. A quoted text after them is never a selector.
pub(super) const CALLED: &[&str] = &[
    "called",
    "named",
    "labelled",
    "labeled",
    "with text",
    "with the text",
    "with label",
    "with the label",
    "that says",
];

/// Words before an element that do not describe it.
pub(super) const ARTICLES: &[&str] = &["the", "a", "an", "my", "your", "its"];

/// Optional words at the beginning of a step.
pub(super) const FILLERS: &[&str] = &["please", "now", "next", "finally", "also"];

/// Phrases between a text to type and its target.
pub(super) const INTO: &[&str] = &["into", "in", "in to", "inside", "on", "onto"];

/// Phrases between an element that is dragged and the element where the drag ends.
pub(super) const ONTO: &[&str] = &["to", "onto", "into"];

pub(super) const PAGES: &[&str] = &["page", "tab", "window"];

pub(super) const DOWNLOADS: &[&str] = &["download"];

/// Phrases after an awaited download.
pub(super) const COMPLETIONS: &[&str] = &["to finish", "to complete", "to end", "finishes", "is complete", "is done"];

pub(super) const NEW_PAGES: &[&str] =
    &["new page", "new tab", "new window", "page to open", "tab to open", "window to open"];

/// Phrases after an awaited page.
pub(super) const BEGINNINGS: &[&str] = &["to open", "to appear", "opens", "appears"];

pub(super) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Phrases between an option and its list.
pub(super) const FROM: &[&str] = &["from", "in", "on", "out of"];

/// Phrases between a field and the text to type into it.
pub(super) const WITH: &[&str] = &["with", "to"];

/// Attributes that may precede “of” without the word “attribute”.
pub(super) const ATTRIBUTES: &[&str] = &["href", "src", "alt", "title", "placeholder", "class", "id", "content"];

/// Phrases that select all matches.
pub(super) const ALL: &[&str] = &["all", "all the", "all of the", "every", "each"];

/// Phrases after an awaited element: true waits for it to appear, false for it to disappear.
pub(super) static STANDINGS: [(bool, &[&str]); 2] = [
    (
        true,
        &[
            "to appear",
            "to show",
            "to show up",
            "to be visible",
            "appears",
            "shows",
            "shows up",
            "is visible",
            "is there",
        ],
    ),
    (
        false,
        &[
            "to disappear",
            "to vanish",
            "to go away",
            "to be gone",
            "to be hidden",
            "disappears",
            "vanishes",
            "goes away",
            "is gone",
            "is hidden",
        ],
    ),
];

pub(super) const ADDRESS: &[&str] = &["address", "url", "page address"];

/// Tests of an awaited address: true for a regular expression, false for a contained text.
pub(super) static ADDRESS_TESTS: [(bool, &[&str]); 2] =
    [(true, &["to match", "matches"]), (false, &["to contain", "contains"])];

/// Units of time, in seconds.
pub(super) static UNITS: [(f64, &[&str]); 3] = [
    (0.001, &["ms", "millisecond", "milliseconds"]),
    (1.0, &["s", "sec", "secs", "second", "seconds"]),
    (60.0, &["min", "mins", "minute", "minutes"]),
];

/// True when the word belongs to the vocabulary, ignoring case.
pub(super) fn has(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let verbs = VERBS.iter().flat_map(|verb| verb.phrases);
        let nouns = NOUNS.iter().flat_map(|noun| noun.names.iter().chain(noun.plurals));
        let keys = KEYS.iter().flat_map(|key| key.names).chain(MODIFIERS.iter().flat_map(|(_, names)| *names));
        let lists = [
            CALLED,
            ARTICLES,
            FILLERS,
            INTO,
            FROM,
            WITH,
            ATTRIBUTES,
            ALL,
            ADDRESS,
            UNCLEAR,
            ONTO,
            PAGES,
            DOWNLOADS,
            COMPLETIONS,
            NEW_PAGES,
            BEGINNINGS,
            &MONTHS,
        ];
        let captures = CAPTURES.iter().flat_map(|(_, names)| *names);
        let states = STANDINGS.iter().chain(&ADDRESS_TESTS).flat_map(|(_, phrases)| *phrases);
        let units = UNITS.iter().flat_map(|(_, names)| *names);
        let directions = DIRECTIONS.iter().chain(&ENDS).map(|(_, direction)| direction);
        let phrases = verbs.chain(nouns).chain(keys).chain(lists.into_iter().flatten());
        let phrases = phrases.chain(captures).chain(states).chain(units).chain(directions);
        let others = ["and", "then", "of", "for", "as", "css", "ref", "key", "by", "at", "pixels"];
        phrases.flat_map(|phrase| phrase.split(' ')).chain(others).collect()
    });
    WORDS.contains(word.to_lowercase().as_str())
}

/// Directions of a scroll, as the signs of the pixels to the right and down.
pub(super) static DIRECTIONS: [((i64, i64), &str); 4] =
    [((0, 1), "down"), ((0, -1), "up"), ((1, 0), "right"), ((-1, 0), "left")];

pub(super) static SWIPES: [(&str, Direction); 4] =
    [("up", Direction::Up), ("down", Direction::Down), ("left", Direction::Left), ("right", Direction::Right)];

pub(super) static ENDS: [((i64, i64), &str); 5] = [
    ((0, 1), "to the bottom"),
    ((0, 1), "to the end"),
    ((0, -1), "to the top"),
    ((1, 0), "to the right end"),
    ((-1, 0), "to the left end"),
];

/// They count, exclude, refer to other elements or set conditions, which steps cannot express, or they belong to the
/// text. In quotation marks they are always part of the text.
pub(super) const UNCLEAR: &[&str] = &[
    "or",
    "if",
    "unless",
    "except",
    "but",
    "not",
    "never",
    "without",
    "twice",
    "until",
    "while",
    "when",
    "before",
    "after",
    "instead",
    "all",
    "every",
    "each",
    "both",
    "it",
    "this",
    "that",
    "them",
    "these",
    "those",
    "here",
    "there",
    "something",
    "anything",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "last",
    "1st",
    "2nd",
    "3rd",
];
