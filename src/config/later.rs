//! Keys of areas that are still to come.
//!
//! They are accepted, checked and printed, so that a deployment can be prepared and its file stays valid when an area
//! arrives; nothing uses them yet, and a start names those that are set. An area that comes takes its section from here.

/// Everything that can be set and is not used, as it is spelled: sections, and keys of sections that are in use.
pub(super) const KEYS: [&str; 1] = ["limits.form_teardown"];
