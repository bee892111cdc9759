//! Browser actions of the steps of a plan.

use kitfleet_domain::agents::steps::{LONG_PRESS_MS, ShownElement, Step};
use kitfleet_types::commands::{Command, DragEnd, ElementQuery};
use kitfleet_types::files::FileName;
use kitfleet_types::ids::UploadId;
use kitfleet_types::operations::{Action, DEFAULT_DRAG_MS, DragCourse, Element, PointerKind, ROLES, Target};

/// `None` for a step that is another operation.
pub(super) fn action_of(step: &Step, approved: bool) -> Option<Action> {
    let element = |query: &ElementQuery| approved_element(query, step.shown.first(), approved);
    let tap = |target: &ElementQuery, count, hold_ms| Action::Tap {
        element: Some(element(target)),
        at: None,
        count,
        hold_ms,
    };
    Some(match &step.command {
        Command::Tap { target } => tap(target, 1, None),
        Command::DoubleTap { target } => tap(target, 2, None),
        Command::LongPress { target } => tap(target, 1, Some(LONG_PRESS_MS)),
        Command::Check { target, checked } => Action::Check { element: element(target), checked: *checked },
        Command::Type { target, value } => {
            let (element, text) = (element(target), value.clone());
            Action::Type { element, text, delay_ms: None, sensitive: true }
        }
        Command::Fill { target, value } => Action::Fill { element: element(target), value: value.clone() },
        Command::Press { key } => Action::Press { key: key.clone() },
        Command::Select { target, option } => {
            Action::Select { element: element(target), options: vec![option.clone()], is_list: false }
        }
        Command::Upload { target, file } => {
            let attached = Some(FileName::of(file));
            let (element, upload) = (Some(element(target)), UploadId::generate());
            Action::Upload { element, upload, files: Vec::new(), attached }
        }
        Command::Drag { target, to } => {
            let course = match to {
                DragEnd::Element(end) => {
                    DragCourse::To { element: approved_element(end, step.shown.get(1), approved), at: None }
                }
                DragEnd::By { delta_x, delta_y } => {
                    let path = step.shown.first().map(|shown| shown.path(*delta_x, *delta_y).to_vec());
                    DragCourse::Path(path.unwrap_or_default())
                }
            };
            let (element, pointer) = (Some(element(target)), PointerKind::Touch);
            Action::Drag { element, course, duration_ms: DEFAULT_DRAG_MS, pointer }
        }
        Command::Swipe { direction, distance, target } => Action::Swipe {
            element: target.as_ref().map(element),
            direction: *direction,
            distance: *distance,
            duration_ms: DEFAULT_DRAG_MS,
        },
        Command::Hover { target } => Action::Hover { element: Some(element(target)), at: None },
        Command::Scroll { delta_x, delta_y, target } => {
            let pixels = |delta: i64| i32::try_from(delta).unwrap_or(if delta < 0 { i32::MIN } else { i32::MAX });
            let (delta_x, delta_y) = (pixels(*delta_x), pixels(*delta_y));
            Action::Scroll { element: target.as_ref().map(element), delta_x, delta_y }
        }
        Command::Dialog { accept, text } => Action::Dialog { accept: *accept, text: text.clone() },
        Command::Back => Action::Back,
        Command::Forward => Action::Forward,
        Command::Reload => Action::Reload,
        Command::Navigate { .. }
        | Command::Wait { .. }
        | Command::Capture { .. }
        | Command::Extract { .. }
        | Command::SwitchPage { .. }
        | Command::ClosePage { .. }
        | Command::SetLocation { .. } => return None,
    })
}

/// A ref identifies exactly one element without a search, however large the page is. An approved step uses the element that was
/// shown.
pub(super) fn approved_element(query: &ElementQuery, shown: Option<&ShownElement>, approved: bool) -> Element {
    element_of(query, shown.filter(|_| approved || !matches!(query, ElementQuery::Ref(_))))
}

pub(super) fn element_of(query: &ElementQuery, shown: Option<&ShownElement>) -> Element {
    match (query, shown) {
        (ElementQuery::Css(selector), _) => Element::Selector(selector.clone()),
        (_, Some(shown)) => Element::Selector(shown.selector.clone()),
        (ElementQuery::Ref(reference), None) => Element::Target(Target::Ref(reference.clone())),
        (ElementQuery::Described { role: Some(role), words }, None) if ROLES.contains(&role.as_str()) => {
            let name = (!words.is_empty()).then(|| words.clone());
            Element::Target(Target::Role { role: role.clone(), name })
        }
        (ElementQuery::Described { words, .. }, None) => Element::Target(Target::Text(words.clone())),
    }
}
