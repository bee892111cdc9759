//! Request and response bodies of recipes. These types have no field for typed texts.

use std::collections::BTreeMap;

use kitfleet_domain::agents::steps::LONG_PRESS_MS;
use kitfleet_domain::recipes;
use kitfleet_domain::recipes::steps::{self, Step};
use kitfleet_types::ids::{AccountId, AgentSessionId, RecipeId};
use kitfleet_types::operations::{CaptureKind, Direction};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use utoipa::openapi::{ArrayBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::openapi::{const_true, named, one_of, tagged};

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
    Tap(Tap),
    Check(Check),
    Type(Typed),
    Fill(Typed),
    Press(Key),
    Select(Choice),
    Drag(Drag),
    Swipe(Swipe),
    Hover(Element),
    Dialog(Dialog),
    ActivatePage(PagePosition),
    ClosePage(PagePosition),
    SetLocation(Location),
    Scroll(Scroll),
    Wait(Wait),
    Capture(Capture),
    Extract(Extract),
    Back,
    Forward,
    Reload,
}

/// Load a page
#[derive(Serialize, ToSchema)]
struct Address {
    url: String,
}

/// Tap an element
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeTap)]
struct Tap {
    /// CSS selector
    selector: String,
    /// Human-readable description of the element
    description: String,
    /// Number of taps; absent for one
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    count: Option<u8>,
    /// Milliseconds that the finger stays; absent for a short tap
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hold_ms: Option<u64>,
}

impl Tap {
    fn of(element: steps::Element, count: Option<u8>, hold_ms: Option<u64>) -> Self {
        let steps::Element { selector, description } = element;
        Self { selector, description, count, hold_ms }
    }
}

/// Set the state of a checkbox or a switch
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeCheck)]
struct Check {
    /// CSS selector
    selector: String,
    /// Human-readable description of the element
    description: String,
    /// Wanted state
    checked: bool,
}

/// Drag an element to another one, or along a path
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeDrag)]
struct Drag {
    /// CSS selector
    selector: String,
    /// Human-readable description of the element
    description: String,
    /// Element where the drag ends; absent if there is a `path`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    to: Option<Element>,
    /// Points from the top left corner of the element, in CSS pixels; absent if there is a `to`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline, nullable = false)]
    path: Option<Vec<PathPoint>>,
}

/// Point of a path
#[derive(Serialize, ToSchema)]
struct PathPoint {
    /// CSS pixels to the right
    x: f64,
    /// CSS pixels down
    y: f64,
}

/// Swipe with a finger
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeSwipe)]
struct Swipe {
    /// Direction of the finger
    #[schema(schema_with = direction)]
    direction: Direction,
    /// CSS pixels; absent for most of the page or the element
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    distance: Option<u32>,
    /// CSS selector; absent for the page
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    selector: Option<String>,
    /// Human-readable description of the element
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<String>,
}

/// Answer the dialog of the page. A text for a prompt is never returned
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeDialog)]
struct Dialog {
    /// True to accept it, false to dismiss it
    accept: bool,
    /// True if a text answers a prompt
    sensitive: bool,
}

/// Page of the browser
#[derive(Serialize, ToSchema)]
#[schema(as = RecipePage)]
struct PagePosition {
    /// Position in the list of pages, counted from 1
    #[schema(minimum = 1)]
    position: u32,
    /// Human-readable description of the page
    description: String,
}

impl From<steps::Page> for PagePosition {
    fn from(steps::Page { position, description }: steps::Page) -> Self {
        Self { position, description }
    }
}

/// Set the position that pages see
#[derive(Serialize, ToSchema)]
#[schema(as = RecipeLocation)]
struct Location {
    /// Degrees north
    latitude: f64,
    /// Degrees east
    longitude: f64,
}

/// Element
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
    #[schema(schema_with = const_true)]
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
    Download,
    Page,
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

/// No parameters
#[derive(ToSchema)]
struct NoParameters {}

fn intent_log() -> RefOr<Schema> {
    let variants = [
        ("navigate", Address::schema()),
        ("tap", Tap::schema()),
        ("check", Check::schema()),
        ("type", Typed::schema()),
        ("fill", Typed::schema()),
        ("press", Key::schema()),
        ("select", Choice::schema()),
        ("drag", Drag::schema()),
        ("swipe", Swipe::schema()),
        ("hover", Element::schema()),
        ("dialog", Dialog::schema()),
        ("activate_page", PagePosition::schema()),
        ("close_page", PagePosition::schema()),
        ("set_location", Location::schema()),
        ("scroll", Scroll::schema()),
        ("wait", Wait::schema()),
        ("capture", Capture::schema()),
        ("extract", Extract::schema()),
        ("back", NoParameters::schema()),
        ("forward", NoParameters::schema()),
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
        ("download", NoParameters::schema()),
        ("page", NoParameters::schema()),
    ];
    tagged("RecipeCondition", variants)
}

fn direction() -> RefOr<Schema> {
    named("SwipeDirection", one_of(&["up", "down", "left", "right"], None))
}

fn capture_kind() -> RefOr<Schema> {
    named("CaptureKind", one_of(&["screenshot", "dom_snapshot", "pdf"], None))
}

impl From<Step> for RecipeStep {
    fn from(step: Step) -> Self {
        match step {
            Step::Navigate { url } => Self::Navigate(Address { url }),
            Step::Tap(element) => Self::Tap(Tap::of(element, None, None)),
            Step::DoubleTap(element) => Self::Tap(Tap::of(element, Some(2), None)),
            Step::LongPress(element) => Self::Tap(Tap::of(element, None, Some(LONG_PRESS_MS))),
            Step::Check { element: steps::Element { selector, description }, checked } => {
                Self::Check(Check { selector, description, checked })
            }
            Step::Fill { element: steps::Element { selector, description }, value: _ } => {
                Self::Fill(Typed { selector, description, sensitive: true })
            }
            Step::Drag { element: steps::Element { selector, description }, to } => {
                let (to, path) = match to {
                    steps::DragEnd::Element(end) => (Some(end.into()), None),
                    steps::DragEnd::Path(path) => (None, Some(path.iter().map(point).collect())),
                };
                Self::Drag(Drag { selector, description, to, path })
            }
            Step::Swipe { direction, distance, target } => {
                let (selector, description) = target.map(|element| (element.selector, element.description)).unzip();
                Self::Swipe(Swipe { direction, distance, selector, description })
            }
            Step::Hover(element) => Self::Hover(element.into()),
            Step::Dialog { accept, text } => Self::Dialog(Dialog { accept, sensitive: text.is_some() }),
            Step::ActivatePage(page) => Self::ActivatePage(page.into()),
            Step::ClosePage(page) => Self::ClosePage(page.into()),
            Step::SetLocation { latitude, longitude } => {
                Self::SetLocation(Location { latitude: latitude.degrees(), longitude: longitude.degrees() })
            }
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
            Step::Forward => Self::Forward,
            Step::Reload => Self::Reload,
        }
    }
}

/// Point of a path, which is stored in tenths of CSS pixels. A coordinate has far fewer digits than an `f64`.
fn point((x, y): &(i64, i64)) -> PathPoint {
    let pixels = |tenths: i64| f64::from(i32::try_from(tenths).unwrap_or(i32::MAX)) / 10.0;
    PathPoint { x: pixels(*x), y: pixels(*y) }
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
            steps::Condition::Download => Self::Download,
            steps::Condition::Page => Self::Page,
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
