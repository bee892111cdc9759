//! Recipes, as customers see them. What was typed has no place in these types.

use std::collections::BTreeMap;

use kitfleet_domain::ids::{AccountId, AgentSessionId, RecipeId};
use kitfleet_domain::operations::CaptureKind;
use kitfleet_domain::recipes;
use kitfleet_domain::recipes::steps::{self, Step};
use kitfleet_domain::timestamp::Timestamp;
use serde::Serialize;
use utoipa::openapi::{ArrayBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::openapi::{literally_true, named, one_of, tagged};

/// What was done in an agent session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "rec_019aa1d4-22b1-7c06-8f7e-0d4a8b6c1e90", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "agent_session_id": "agt_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "label": "Sign in at example.com", "description": "",
    "intent_count": 3, "created_at": "2026-11-20T18:09:30.000Z", "updated_at": "2026-11-20T18:09:30.000Z",
}))]
pub struct Recipe {
    /// Its id
    #[schema(value_type = String)]
    id: RecipeId,
    /// Whose it is
    #[schema(value_type = String)]
    account_id: AccountId,
    /// What it was made of; null once that is gone
    #[schema(value_type = Option<String>, required = true)]
    agent_session_id: Option<AgentSessionId>,
    /// What its maker calls it
    #[schema(min_length = 1, max_length = 120)]
    label: String,
    /// What its maker says of it
    #[schema(max_length = 2_000)]
    description: String,
    /// How many steps it has
    intent_count: i32,
    /// When it was made
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The same: a recipe never changes
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

impl From<recipes::Recipe> for Recipe {
    fn from(recipe: recipes::Recipe) -> Self {
        Self {
            id: recipe.id,
            account_id: recipe.account_id,
            agent_session_id: recipe.agent_session_id,
            label: recipe.label,
            description: recipe.description,
            intent_count: recipe.intent_count,
            created_at: recipe.created_at,
            updated_at: recipe.updated_at,
        }
    }
}

/// A recipe with its steps
#[derive(Serialize, ToSchema)]
pub struct RecipeWithSteps {
    #[serde(flatten)]
    recipe: Recipe,
    /// What was done, in its order
    #[schema(schema_with = intent_log)]
    intent_log: Vec<RecipeStep>,
}

impl RecipeWithSteps {
    pub fn new(recipe: recipes::Recipe, steps: Vec<Step>) -> Self {
        Self { recipe: recipe.into(), intent_log: steps.into_iter().map(RecipeStep::from).collect() }
    }
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum RecipeStep {
    Navigate(Address),
    Tap(Element),
    Type(Typed),
    Press(Key),
    Select(Choice),
    Scroll(Scroll),
    Wait(Wait),
    Capture(Capture),
    Extract(Extract),
    Back,
    Reload,
}

/// A page that was loaded
#[derive(Serialize, ToSchema)]
struct Address {
    url: String,
}

/// An element that was tapped
#[derive(Serialize, ToSchema)]
struct Element {
    /// CSS
    selector: String,
    /// What it was, for people
    description: String,
}

/// Text into an element. What it was is shown nowhere
#[derive(Serialize, ToSchema)]
struct Typed {
    /// CSS
    selector: String,
    /// What it was, for people
    description: String,
    #[schema(schema_with = literally_true)]
    sensitive: bool,
}

/// A key that was pressed
#[derive(Serialize, ToSchema)]
struct Key {
    key: String,
}

/// An option that was chosen
#[derive(Serialize, ToSchema)]
struct Choice {
    /// CSS
    selector: String,
    /// What it was, for people
    description: String,
    option: String,
}

/// The page, or an element that scrolls
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeScroll)]
struct Scroll {
    /// CSS; the page when absent
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// What it was, for people
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
    /// Pixels to the right
    delta_x: i64,
    /// Pixels down
    delta_y: i64,
}

/// What was waited for
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeWait)]
struct Wait {
    #[schema(schema_with = condition)]
    condition: Condition,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Condition {
    Selector(Sought),
    SelectorHidden(Sought),
    UrlMatches(Pattern),
    Time(Time),
}

/// What was looked for: an element by a selector, or by what somebody said of it
#[derive(Serialize, ToSchema)]
struct Sought {
    /// CSS; absent where there is a `target`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// What it was told by otherwise, as operations take it
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    target: Option<BTreeMap<&'static str, String>>,
    /// What it was, for people
    description: String,
}

/// An address in which an expression was found
#[derive(Serialize, ToSchema)]
struct Pattern {
    pattern: String,
}

/// Just time
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeTime)]
struct Time {
    /// Milliseconds
    ms: u64,
}

/// The page, captured
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeCapture)]
struct Capture {
    #[schema(schema_with = capture_kind)]
    capture: CaptureKind,
}

/// Values that were read
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeExtract)]
struct Extract {
    #[schema(inline)]
    items: Vec<RecipeItem>,
}

/// One value that was read
#[derive(Serialize, ToSchema)]
struct RecipeItem {
    name: String,
    /// CSS; absent where there is a `target`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// What it was told by otherwise, as operations take it
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    target: Option<BTreeMap<&'static str, String>>,
    /// What it was, for people
    description: String,
    /// Which attribute; the text when null
    #[schema(required = true)]
    attribute: Option<String>,
    /// Whether of every match
    list: bool,
}

/// A page, once more
#[derive(ToSchema)]
struct Nothing {}

fn intent_log() -> RefOr<Schema> {
    let variants = [
        ("navigate", Address::schema()),
        ("tap", Element::schema()),
        ("type", Typed::schema()),
        ("press", Key::schema()),
        ("select", Choice::schema()),
        ("scroll", Scroll::schema()),
        ("wait", Wait::schema()),
        ("capture", Capture::schema()),
        ("extract", Extract::schema()),
        ("back", Nothing::schema()),
        ("reload", Nothing::schema()),
    ];
    ArrayBuilder::new().items(tagged("RecipeStep", variants)).into()
}

fn condition() -> RefOr<Schema> {
    let variants = [
        ("selector", Sought::schema()),
        ("selector_hidden", Sought::schema()),
        ("url_matches", Pattern::schema()),
        ("time", Time::schema()),
    ];
    tagged("RecipeCondition", variants)
}

fn capture_kind() -> RefOr<Schema> {
    named("CaptureKind", one_of(&["screenshot", "dom_snapshot", "pdf"], None))
}

impl From<Step> for RecipeStep {
    fn from(step: Step) -> Self {
        match step {
            Step::Navigate { url } => Self::Navigate(Address { url }),
            Step::Tap(element) => Self::Tap(element.into()),
            Step::Type { element: steps::Element { selector, description }, value: _ } => {
                Self::Type(Typed { selector, description, sensitive: true })
            }
            Step::Press { key } => Self::Press(Key { key }),
            Step::Select { element: steps::Element { selector, description }, option } => {
                Self::Select(Choice { selector, description, option })
            }
            Step::Scroll { delta_x, delta_y, target } => {
                let (selector, description) = target.map(|element| (element.selector, element.description)).unzip();
                Self::Scroll(Scroll { selector, description, delta_x, delta_y })
            }
            Step::Wait { condition } => Self::Wait(Wait { condition: condition.into() }),
            Step::Capture { capture } => Self::Capture(Capture { capture }),
            Step::Extract { items } => {
                Self::Extract(Extract { items: items.into_iter().map(RecipeItem::from).collect() })
            }
            Step::Back => Self::Back,
            Step::Reload => Self::Reload,
        }
    }
}

impl From<steps::Element> for Element {
    fn from(steps::Element { selector, description }: steps::Element) -> Self {
        Self { selector, description }
    }
}

impl From<steps::Sought> for Sought {
    fn from(sought: steps::Sought) -> Self {
        let target =
            sought.target().map(|members| members.into_iter().map(|(name, text)| (name, text.to_owned())).collect());
        Self { selector: sought.selector().map(str::to_owned), target, description: sought.description }
    }
}

impl From<steps::Condition> for Condition {
    fn from(condition: steps::Condition) -> Self {
        match condition {
            steps::Condition::Selector(sought) => Self::Selector(sought.into()),
            steps::Condition::SelectorHidden(sought) => Self::SelectorHidden(sought.into()),
            steps::Condition::UrlMatches { pattern } => Self::UrlMatches(Pattern { pattern }),
            steps::Condition::Time { ms } => Self::Time(Time { ms }),
        }
    }
}

impl From<steps::Item> for RecipeItem {
    fn from(item: steps::Item) -> Self {
        let steps::Item { name, sought, attribute, list } = item;
        let Sought { selector, target, description } = sought.into();
        Self { name, selector, target, description, attribute, list }
    }
}
