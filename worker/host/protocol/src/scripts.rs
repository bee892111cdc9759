use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptRun {
    pub uri: String,
    pub end: ScriptEnd,
}

/// It uses externally tagged JSON, so that the value can be kept as raw text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptEnd {
    Value(Box<RawValue>),
    TooLarge(u64),
    /// It has thrown an exception, or its value cannot be converted to JSON.
    Exception(ScriptException),
    SyntaxError(SyntaxError),
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptException {
    pub name: String,
    pub message: String,
    /// Starts at 1.
    pub line: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyntaxError {
    /// Without text of the script.
    pub message: String,
    /// Starts at 1.
    pub line: Option<u32>,
}
