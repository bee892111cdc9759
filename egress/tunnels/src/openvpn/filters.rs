//! Filters of a profile for pushed options.

/// Action of `pull-filter` for options with this prefix.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub(super) action: Action,
    pub(super) prefix: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    Accept,
    Ignore,
    Reject,
}

impl Filter {
    pub(super) fn new(action: &str, prefix: &str) -> Option<Self> {
        let action = match action {
            "accept" => Action::Accept,
            "ignore" => Action::Ignore,
            "reject" => Action::Reject,
            _ => return None,
        };
        Some(Self { action, prefix: prefix.to_owned() })
    }
}
