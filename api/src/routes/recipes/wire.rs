//! Request and response bodies of recipes. These types have no field for typed texts.

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

/// Recorded steps of an agent session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "id": "rec_019aa1d4-22b1-7c06-8f7e-0d4a8b6c1e90", "account_id": "acc_019aa1d0-0f2c-7d1c-93cb-58b7e2d7b7a1",
    "agent_session_id": "agt_019aa1d0-11d8-7a52-8fd0-2f3a3c1fd6f5", "label": "Sign in at example.com", "description": "",
    "intent_count": 3, "created_at": "2026-11-20T18:09:30.000Z", "updated_at": "2026-11-20T18:09:30.000Z",
}))]
pub struct Recipe {
    /// Recipe ID
    #[schema(value_type = String)]
    id: RecipeId,
    /// Account that owns the recipe
    #[schema(value_type = String)]
    account_id: AccountId,
    /// Agent session that the recipe was created from; null after that is deleted
    #[schema(value_type = Option<String>, required = true)]
    agent_session_id: Option<AgentSessionId>,
    /// Label set by the customer
    #[schema(min_length = 1, max_length = 120)]
    label: String,
    /// Description set by the customer
    #[schema(max_length = 2_000)]
    description: String,
    /// Number of steps
    intent_count: i32,
    /// Time the recipe was created
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Same as `created_at`: a recipe never changes
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

/// Recipe with its steps
#[derive(Serialize, ToSchema)]
pub struct RecipeWithSteps {
    #[serde(flatten)]
    recipe: Recipe,
    /// Steps in their order
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

/// Load a page
#[derive(Serialize, ToSchema)]
struct Address {
    url: String,
}

/// Tap an element
#[derive(Serialize, ToSchema)]
struct Element {
    /// CSS selector
    selector: String,
    /// Human-readable description of the element
    description: String,
}

/// Type text into an element. The text is never returned
#[derive(Serialize, ToSchema)]
struct Typed {
    /// CSS selector
    selector: String,
    /// Human-readable description of the element
    description: String,
    #[schema(schema_with = literally_true)]
    sensitive: bool,
}

/// Press a key
#[derive(Serialize, ToSchema)]
struct Key {
    key: String,
}

/// Select an option
#[derive(Serialize, ToSchema)]
struct Choice {
    /// CSS selector
    selector: String,
    /// Human-readable description of the element
    description: String,
    option: String,
}

/// Scroll the page or a scrollable element
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeScroll)]
struct Scroll {
    /// CSS selector; absent if the page scrolls
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// Human-readable description of the element
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
    /// Pixels to the right
    delta_x: i64,
    /// Pixels down
    delta_y: i64,
}

/// Wait for a condition
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeWait)]
struct Wait {
    #[schema(schema_with = condition)]
    condition: Condition,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Condition {
    Selector(ElementLocator),
    SelectorHidden(ElementLocator),
    UrlMatches(Pattern),
    Time(Time),
}

/// Element, located by a selector or by a query
#[derive(Serialize, ToSchema)]
struct ElementLocator {
    /// CSS selector; absent if there is a `target`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// Element query, in the form that operations accept
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    target: Option<BTreeMap<&'static str, String>>,
    /// Human-readable description of the element
    description: String,
}

/// Address that matches a regular expression
#[derive(Serialize, ToSchema)]
struct Pattern {
    pattern: String,
}

/// Period of time
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeTime)]
struct Time {
    /// Milliseconds
    ms: u64,
}

/// Capture the page
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeCapture)]
struct Capture {
    #[schema(schema_with = capture_kind)]
    capture: CaptureKind,
}

/// Extract values from the page
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeExtract)]
struct Extract {
    #[schema(inline)]
    items: Vec<RecipeItem>,
}

/// Value to extract
#[derive(Serialize, ToSchema)]
struct RecipeItem {
    name: String,
    /// CSS selector; absent if there is a `target`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// Element query, in the form that operations accept
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    target: Option<BTreeMap<&'static str, String>>,
    /// Human-readable description of the element
    description: String,
    /// Attribute to read; the text if null
    #[schema(required = true)]
    attribute: Option<String>,
    /// True to read every match
    list: bool,
}

/// Go back, or reload the page
#[derive(ToSchema)]
struct NoParameters {}

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
        ("back", NoParameters::schema()),
        ("reload", NoParameters::schema()),
    ];
    ArrayBuilder::new().items(tagged("RecipeStep", variants)).into()
}

fn condition() -> RefOr<Schema> {
    let variants = [
        ("selector", ElementLocator::schema()),
        ("selector_hidden", ElementLocator::schema()),
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

impl From<steps::RecipeLocator> for ElementLocator {
    fn from(sought: steps::RecipeLocator) -> Self {
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
        let ElementLocator { selector, target, description } = sought.into();
        Self { name, selector, target, description, attribute, list }
    }
}
