//! Acting on a page as a user does.

use std::fmt;

use axum::extract::{Request, State};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_types::files::{MAX_FILES, UploadedFile};
use kitfleet_types::ids::{SessionId, UploadId};
use kitfleet_types::limits::Limits;
use kitfleet_types::operations::{
    Action, DEFAULT_DRAG_MS, Direction, DragCourse, Element, Interact, Interacted, OnTimeout, Operation, Point,
    PointerKind, parse_timeout,
};
use kitfleet_types::validation::{Invalid, Rules, both};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use serde_json::{Map, Value};
use utoipa::openapi::{ArrayBuilder, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::routes;

use super::targets::{self, TargetBody, element, element_if_any};
use super::{kind, on_timeout};
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::{Unchecked, read_large};
use crate::http::openapi::{Body, Driving, NoSession, Restricted, named, one_of, or_null, tagged};
use crate::http::path::IdPath;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::WRITE_SESSIONS;
use crate::routes::sessions::dispatch::{self, Done};
use crate::routes::sessions::file_links;

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_SESSIONS, routes!(interact))
}

/// Tap, type, fill, select, scroll, press a key, upload files, answer a dialog, go back or forward, or reload
///
/// If several elements match, the action is not performed: the request fails with 400 and up to five `candidates`, and the
/// session stays `ready`. With `dialogs: hold`, a dialog ends the action early: the response has the `dialog`, and the action
/// `dialog` answers it. Typed text is sealed on its way to the browser: it is neither stored in plain text nor logged. Files of
/// an `upload` are not stored; they exist in the browser until the session ends.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/interact", tag = "Sessions", operation_id = "interactWithSession",
    params(IdPath<SessionId>), request_body = InteractBody,
    responses((status = 200, description = "The outcome of the action", body = Interacted), Restricted, Body, NoSession, Driving),
)]
async fn interact(caller: Caller, State(app): State<App>, path: IdPath<SessionId>, request: Request) -> Result<Done> {
    let (body, reservation) = read_large::<InteractBody>(request, &app, caller.account_id).await?;
    let mut operation = body.check(|body| body.into_operation(&app.config.limits))?;
    let session = path.id()?;
    let Action::Upload { upload, files, .. } = &mut operation.action else {
        drop(reservation);
        return dispatch::run(&app, &caller, session, Operation::Interact(operation)).await;
    };
    let (upload, files) = (*upload, std::mem::take(files));
    file_links::require_size(&files)?;
    // The files are sent before the claim, which checks again.
    dispatch::require_ready(&app, &caller, session).await?;
    let delivered = file_links::deliver(&app, &caller, session, upload, files).await?;
    drop(reservation);
    let done = dispatch::run(&app, &caller, session, Operation::Interact(operation)).await;
    drop(delivered);
    done
}

/// Body of `interact`
#[derive(Deserialize, ToSchema)]
#[schema(as = Interact, example = json!({"action": {"kind": "type", "selector": "#q", "text": "shoes"}}))]
pub struct InteractBody {
    /// Action to perform
    #[schema(schema_with = action_schema)]
    pub action: Map<String, Value>,
    /// Timeout in milliseconds. If absent, a `type` action gets an additional 5 ms plus its `delay_ms` for each character, up to
    /// the maximum
    #[schema(minimum = 100, maximum = 120_000, default = 10_000)]
    pub timeout_ms: Option<u64>,
    /// On a timeout, `fail` errors the session; `return` returns `ok: false` and keeps the session
    #[schema(schema_with = on_timeout)]
    pub on_timeout: Option<OnTimeout>,
}

/// Tap on an element, or on a point of the viewport
#[derive(Deserialize, ToSchema)]
struct Tap {
    /// CSS selector; alternative to `target`. Both can be absent if `at` is given
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Point to tap, from the top left corner of the element, or of the viewport without an element
    #[schema(schema_with = point)]
    at: Option<Point>,
    /// Number of taps in quick succession
    #[schema(minimum = 1, maximum = 3, default = 1)]
    count: Option<u8>,
    /// Milliseconds that the finger stays on the screen, for a long press. If absent, those of the behavioral profile
    #[schema(maximum = 5_000)]
    hold_ms: Option<u64>,
}

/// Move a mouse to an element or a point, without a press
#[derive(Deserialize, ToSchema)]
struct Hover {
    /// CSS selector; alternative to `target`. Both can be absent if `at` is given
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Point, from the top left corner of the element, or of the viewport without an element
    #[schema(schema_with = point)]
    at: Option<Point>,
}

/// Swipe on the page or an element
#[derive(Deserialize, ToSchema)]
struct Swipe {
    /// CSS selector; alternative to `target`. If both are absent, the finger swipes on the page
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Direction of the finger. The content moves in the same direction
    #[schema(schema_with = direction)]
    direction: Direction,
    /// CSS pixels. If absent, 60 % of the element or of the viewport
    #[schema(minimum = 10, maximum = 5_000)]
    distance: Option<u32>,
    /// Duration of the movement in milliseconds
    #[schema(minimum = 50, maximum = 5_000, default = 300)]
    duration_ms: Option<u64>,
}

/// Drag with a finger or a mouse, along a path or to another element
#[derive(Deserialize, ToSchema)]
struct Drag {
    /// CSS selector of the element where the drag starts; alternative to `target`. Both can be absent with `path`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Points from the top left corner of the element, or of the viewport without an element; alternative to `to`
    #[schema(schema_with = path)]
    path: Option<Vec<Point>>,
    /// Element where the drag ends; alternative to `path`
    #[schema(schema_with = drag_end)]
    to: Option<DragEnd>,
    /// Duration of the movement in milliseconds
    #[schema(minimum = 50, maximum = 10_000, default = 300)]
    duration_ms: Option<u64>,
    /// Pointing device
    #[schema(schema_with = pointer)]
    pointer: Option<PointerKind>,
}

/// End of a drag
#[derive(Deserialize, ToSchema)]
struct DragEnd {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Point from the top left corner of the element. If absent, its center
    #[schema(schema_with = point)]
    at: Option<Point>,
}

/// Set the state of a checkbox, a switch or a radio button
#[derive(Deserialize, ToSchema)]
struct Check {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Wanted state. If the control has it already, nothing happens. A radio button cannot be unchecked
    #[schema(default = true)]
    checked: Option<bool>,
}

/// Remove the content of a field
#[derive(Deserialize, ToSchema)]
struct Clear {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
}

/// Replace the content of a field
#[derive(Deserialize, ToSchema)]
struct Fill {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// New content. A field for a date, a time, a color or a range takes the form that HTML defines, such as `2026-11-08`
    #[schema(max_length = 10_000)]
    value: String,
}

/// Type text into an element
#[derive(Deserialize, ToSchema)]
struct Type {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    #[schema(max_length = 10_000)]
    text: String,
    /// Milliseconds between keys. The delays of the whole text must not exceed the maximum `timeout_ms`
    #[schema(maximum = 500)]
    delay_ms: Option<u64>,
    /// True to treat the text as sensitive. Text typed into a password field is always sensitive
    #[schema(default = false)]
    sensitive: Option<bool>,
}

/// Scroll the page or a scrollable element
#[derive(Deserialize, ToSchema)]
struct Scroll {
    /// CSS selector; alternative to `target`. If both are absent, the page scrolls
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Pixels to the right
    #[schema(default = 0)]
    delta_x: Option<i32>,
    /// Pixels down
    #[schema(default = 0)]
    delta_y: Option<i32>,
}

/// Press a key
#[derive(Deserialize, ToSchema)]
struct Press {
    /// Character, or key name such as `Enter`, alone or after modifiers (`Shift`, `Control`, `Alt`, `Meta`), each at most once, as in
    /// `Control+Shift+ArrowLeft`. A name has at most 20 characters
    #[schema(min_length = 1, max_length = 40)]
    key: String,
}

/// Select an option of a `<select>` element
#[derive(Deserialize, ToSchema)]
struct Select {
    /// CSS selector; alternative to `target`
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Value or label of the option; alternative to `options`
    #[schema(max_length = 1_000)]
    option: Option<String>,
    /// Values or labels of the options. They replace the selection, also of a menu with multiple selection
    #[schema(min_items = 1, max_items = 100)]
    options: Option<Vec<String>>,
}

/// Answer the dialog that waits for an answer, in a session with `dialogs: hold`
#[derive(Deserialize, ToSchema)]
struct Dialog {
    /// True to accept the dialog, false to dismiss it
    accept: bool,
    /// Answer to a prompt that is accepted; by default its default value
    #[schema(max_length = 10_000)]
    text: Option<String>,
}

/// Give files to a file input, or to the file chooser that an element opens
#[derive(Deserialize, ToSchema)]
struct Upload {
    /// CSS selector of a file input, which may be hidden, or of an element that opens a file chooser when it is tapped;
    /// alternative to `target`. Both can be absent if the last tap has opened a file chooser
    #[schema(min_length = 1, max_length = 4_096)]
    selector: Option<String>,
    /// Element query; alternative to `selector`
    #[schema(schema_with = targets::target)]
    target: Option<TargetBody>,
    /// Files, of at most 16 MiB in all
    #[schema(schema_with = files_schema)]
    files: Vec<FileBody>,
}

/// File of an upload
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"name": "photo.jpg", "content_type": "image/jpeg", "content": "/9j/4AAQ"}))]
struct FileBody {
    /// Name that the page sees. Of a path only the last part counts, and hidden characters are removed
    #[schema(min_length = 1, max_length = 4_096)]
    name: String,
    /// Media type. The page sees the one that a browser derives from the name
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// Content of the file in base64
    #[schema(value_type = String, format = Byte)]
    content: FileContent,
}

/// Content of a file, which is decoded as it is read, because a copy of the text would be large.
pub struct FileContent(pub Vec<u8>);

impl<'de> Deserialize<'de> for FileContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ContentVisitor)
    }
}

struct ContentVisitor;

impl Visitor<'_> for ContentVisitor {
    type Value = FileContent;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FileContent, E> {
        let decoded = run_blocking(text.len(), || STANDARD.decode(text));
        decoded.map(FileContent).map_err(|_| E::custom("must be base64 (RFC 4648, section 4)"))
    }
}

fn files_schema() -> RefOr<Schema> {
    let files = ArrayBuilder::new().items(named("UploadFile", FileBody::schema()));
    let files = files.min_items(Some(1)).max_items(Some(MAX_FILES));
    RefOr::T(Schema::Array(files.description(Some("Files, of at most 16 MiB in all")).build()))
}

fn parse_files(files: Vec<FileBody>) -> Result<Vec<UploadedFile>, Invalid> {
    let (mut parsed, mut rules) = (Vec::new(), Rules::default());
    for (number, FileBody { name, content_type, content: FileContent(content) }) in files.into_iter().enumerate() {
        match UploadedFile::parse(&name, content_type.as_deref(), content, &format!("{OF}.files.{number}")) {
            Ok(file) => parsed.push(file),
            Err(invalid) => rules.note(Some(invalid)),
        }
    }
    rules.check().map(|()| parsed)
}

/// Go back to the previous page
#[derive(Deserialize, ToSchema)]
struct Back {}

/// Go forward to the next page
#[derive(Deserialize, ToSchema)]
struct Forward {}

/// Reload the page
#[derive(Deserialize, ToSchema)]
struct Reload {}

/// Member of the body that holds the action.
const OF: &str = "action";

/// A kind of action.
struct ActionKind {
    name: &'static str,
    /// Schema of its fields.
    schema: fn() -> RefOr<Schema>,
    parse: fn(Map<String, Value>) -> Result<Action, Invalid>,
}

const KINDS: [ActionKind; 16] = [
    ActionKind {
        name: "tap",
        schema: Tap::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Tap { selector, target, at, count, hold_ms }| {
                let (element, count) = (place(selector, target, at)?, count.unwrap_or(1));
                Ok(Action::Tap { element, at, count, hold_ms })
            })
        },
    },
    ActionKind {
        name: "hover",
        schema: Hover::schema,
        parse: |fields| {
            Unchecked::at(fields, OF)
                .check(|Hover { selector, target, at }| Ok(Action::Hover { element: place(selector, target, at)?, at }))
        },
    },
    ActionKind {
        name: "swipe",
        schema: Swipe::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Swipe { selector, target, direction, distance, duration_ms }| {
                let (element, duration_ms) =
                    (element_if_any(selector, target, OF)?, duration_ms.unwrap_or(DEFAULT_DRAG_MS));
                Ok(Action::Swipe { element, direction, distance, duration_ms })
            })
        },
    },
    ActionKind { name: "drag", schema: Drag::schema, parse: |fields| Unchecked::at(fields, OF).check(drag) },
    ActionKind {
        name: "check",
        schema: Check::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Check { selector, target, checked }| {
                Ok(Action::Check { element: element(selector, target, OF)?, checked: checked.unwrap_or(true) })
            })
        },
    },
    ActionKind {
        name: "clear",
        schema: Clear::schema,
        parse: |fields| {
            Unchecked::at(fields, OF)
                .check(|Clear { selector, target }| Ok(Action::Clear { element: element(selector, target, OF)? }))
        },
    },
    ActionKind {
        name: "fill",
        schema: Fill::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Fill { selector, target, value }| {
                Ok(Action::Fill { element: element(selector, target, OF)?, value })
            })
        },
    },
    ActionKind {
        name: "type",
        schema: Type::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Type { selector, target, text, delay_ms, sensitive }| {
                let sensitive = sensitive.unwrap_or_default();
                Ok(Action::Type { element: element(selector, target, OF)?, text, delay_ms, sensitive })
            })
        },
    },
    ActionKind {
        name: "scroll",
        schema: Scroll::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Scroll { selector, target, delta_x, delta_y }| {
                let (delta_x, delta_y) = (delta_x.unwrap_or_default(), delta_y.unwrap_or_default());
                Ok(Action::Scroll { element: element_if_any(selector, target, OF)?, delta_x, delta_y })
            })
        },
    },
    ActionKind {
        name: "press",
        schema: Press::schema,
        parse: |fields| Unchecked::at(fields, OF).check(|Press { key }| Ok(Action::Press { key })),
    },
    ActionKind {
        name: "select",
        schema: Select::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Select { selector, target, option, options }| {
                let is_list = options.is_some();
                let options = match (option, options) {
                    (Some(_), Some(_)) => {
                        return Err(Invalid::field("action.options", "must not be combined with option"));
                    }
                    (None, None) => return Err(Invalid::field("action.option", "is required unless options is given")),
                    (option, options) => options.unwrap_or_else(|| Vec::from_iter(option)),
                };
                Ok(Action::Select { element: element(selector, target, OF)?, options, is_list })
            })
        },
    },
    ActionKind {
        name: "dialog",
        schema: Dialog::schema,
        parse: |fields| Unchecked::at(fields, OF).check(|Dialog { accept, text }| Ok(Action::Dialog { accept, text })),
    },
    ActionKind {
        name: "upload",
        schema: Upload::schema,
        parse: |fields| {
            Unchecked::at(fields, OF).check(|Upload { selector, target, files }| {
                let (element, files) = both(element_if_any(selector, target, OF), parse_files(files))?;
                Ok(Action::Upload { element, upload: UploadId::generate(), files, attached: None })
            })
        },
    },
    ActionKind { name: "back", schema: Back::schema, parse: |_| Ok(Action::Back) },
    ActionKind { name: "forward", schema: Forward::schema, parse: |_| Ok(Action::Forward) },
    ActionKind { name: "reload", schema: Reload::schema, parse: |_| Ok(Action::Reload) },
];

fn point() -> RefOr<Schema> {
    or_null(named("Point", Point::schema()))
}

fn direction() -> RefOr<Schema> {
    named("SwipeDirection", one_of(&["up", "down", "left", "right"], None))
}

fn pointer() -> RefOr<Schema> {
    or_null(named("PointerKind", one_of(&["touch", "mouse"], Some("touch"))))
}

fn drag_end() -> RefOr<Schema> {
    or_null(named("DragEnd", DragEnd::schema()))
}

fn path() -> RefOr<Schema> {
    let points = ArrayBuilder::new().items(named("Point", Point::schema())).min_items(Some(2)).max_items(Some(200));
    or_null(RefOr::T(Schema::Array(points.build())))
}

/// Element of an action that can also act on a point of the viewport.
fn place(selector: Option<String>, target: Option<TargetBody>, at: Option<Point>) -> Result<Option<Element>, Invalid> {
    match at {
        Some(_) => element_if_any(selector, target, OF),
        None => element(selector, target, OF).map(Some),
    }
}

fn drag(Drag { selector, target, path, to, duration_ms, pointer }: Drag) -> Result<Action, Invalid> {
    let course = match (path, to) {
        (Some(_), Some(_)) => return Err(Invalid::field("action.to", "must not be combined with path")),
        (None, None) => return Err(Invalid::field("action.path", "is required unless to is given")),
        (Some(path), None) => DragCourse::Path(path),
        (None, Some(DragEnd { selector, target, at })) => {
            DragCourse::To { element: element(selector, target, "action.to")?, at }
        }
    };
    let element = match course {
        DragCourse::Path(_) => element_if_any(selector, target, OF)?,
        DragCourse::To { .. } => Some(element(selector, target, OF)?),
    };
    let (duration_ms, pointer) = (duration_ms.unwrap_or(DEFAULT_DRAG_MS), pointer.unwrap_or_default());
    Ok(Action::Drag { element, course, duration_ms, pointer })
}

fn action_schema() -> RefOr<Schema> {
    tagged("Action", KINDS.map(|kind| (kind.name, (kind.schema)())))
}

impl InteractBody {
    /// # Errors
    /// On a field of `action` or `timeout_ms`.
    pub fn into_operation(self, limits: &Limits) -> Result<Interact, Invalid> {
        let Self { action: fields, timeout_ms, on_timeout } = self;
        let parsed = action(fields)
            .and_then(|action| Interact::parse(action, timeout_ms, on_timeout.unwrap_or_default(), limits));
        parsed.map_err(|invalid| invalid.and(parse_timeout(timeout_ms, limits.max_timeout, limits)))
    }
}

/// # Errors
/// On `action.kind`, or a field of that kind.
pub fn action(fields: Map<String, Value>) -> Result<Action, Invalid> {
    let name = kind(&fields, OF)?;
    let Some(known) = KINDS.into_iter().find(|known| known.name == name) else {
        let names = KINDS.map(|kind| kind.name).join(", ");
        return Err(Invalid::field("action.kind", format!("must be one of {names}")));
    };
    (known.parse)(fields)
}
