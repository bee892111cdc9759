//! Results of scripts that run in the page's own world.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Result of [`crate::HostCommand::RunScript`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptRun {
    /// Address of the page after the script, truncated to the device's limit.
    pub uri: String,
    pub end: ScriptEnd,
}

/// End of a script.
///
/// It uses externally tagged JSON, so that the value can be kept as raw text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptEnd {
    /// It has returned this value.
    Value(Box<RawValue>),
    /// It has returned a value of this size, which exceeds the limit.
    TooLarge(u64),
    /// It has thrown an exception, or its value cannot be converted to JSON.
    Exception(ScriptException),
    /// It is not the body of a function.
    SyntaxError(SyntaxError),
    /// The page was replaced or closed while the script ran.
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptException {
    /// Name of the error, truncated.
    pub name: String,
    /// Message, truncated.
    pub message: String,
    /// Line of the script, starting at 1.
    pub line: Option<u32>,
}

/// Syntax error of a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntaxError {
    /// Message without text of the script.
    pub message: String,
    /// Line of the script, starting at 1.
    pub line: Option<u32>,
}
