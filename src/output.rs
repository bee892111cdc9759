//! Output of commands: text or a table by default, JSON with `--json`.

use std::io::{self, Write as _, stdout};

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::{Map, Value};

/// Output format of a command.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Format {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Format {
    /// Prints `value` as JSON, or as the text that `text` returns for it.
    pub fn print<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        if self.json { line(&json(value)?) } else { line(&text(value)) }
    }

    /// `value` as a line of JSON, or as the text that `text` returns.
    pub fn report<T: Serialize>(self, value: &T, text: impl FnOnce(&T) -> String) -> Result<()> {
        if self.json { line(&serde_json::to_string(value)?) } else { line(&text(value)) }
    }

    /// Prints nothing with `--json`.
    pub fn progress(self, text: impl FnOnce() -> String) -> Result<()> {
        if self.json { Ok(()) } else { line(&text()) }
    }

    /// Each field on a line, without `--json`.
    pub fn describe<T: Serialize>(self, value: &T) -> Result<()> {
        let fields = serde_json::to_value(value)?;
        self.print(value, |_| fields_of(&fields))
    }

    /// Fields of nested objects have dotted names.
    pub fn describe_deep<T: Serialize>(self, value: &T) -> Result<()> {
        let fields = flattened(serde_json::to_value(value)?);
        self.print(value, |_| fields_of(&fields))
    }

    /// `columns` are the fields of the table.
    pub fn table<T: Serialize>(self, rows: &[T], columns: &[&str]) -> Result<()> {
        let cells: Vec<Value> = rows.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        self.table_of(rows, &cells, columns)
    }

    /// `cells` are the same rows without nesting.
    pub fn table_of<T: Serialize>(self, rows: &[T], cells: &[Value], columns: &[&str]) -> Result<()> {
        if self.json { line(&json(rows)?) } else { line(&aligned(cells, columns)) }
    }
}

/// A closed pipe, as with `head`, is not a failure.
pub fn line(text: &str) -> Result<()> {
    let mut out = stdout().lock();
    match writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

fn json<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)?)
}

fn flattened(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    let mut flat = Map::new();
    for (name, member) in members {
        match flattened(member) {
            Value::Object(inner) => {
                flat.extend(inner.into_iter().map(|(inner, value)| (format!("{name}.{inner}"), value)));
            }
            member => {
                flat.insert(name, member);
            }
        }
    }
    Value::Object(flat)
}

fn fields_of(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    let width = fields.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = fields.map(|(name, value)| format!("{name:width$}  {}", cell(value))).collect();
    lines.join("\n")
}

fn aligned(rows: &[Value], columns: &[&str]) -> String {
    let heading = columns.iter().map(|name| heading(name)).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|name| cell_of(name, &row[*name])).collect());
    let lines: Vec<Vec<String>> = std::iter::once(heading).chain(cells).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    lines.iter().fold(String::new(), |text, line| {
        let padded: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text + padded.join("  ").trim_end() + "\n"
    })
}

const BYTES: &str = "_bytes";

fn heading(name: &str) -> String {
    name.strip_suffix(BYTES).unwrap_or(name).to_uppercase().replace('_', " ")
}

/// Bytes are shown in GiB.
fn cell_of(name: &str, value: &Value) -> String {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    match value.as_f64() {
        Some(bytes) if name.ends_with(BYTES) => format!("{:.1} GiB", bytes / GIB),
        _ => cell(value),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_gib() {
        let rows = [serde_json::json!({"free_disk_bytes": 53_687_091_200_i64}), serde_json::json!({})];
        assert_eq!(aligned(&rows, &["free_disk_bytes"]), "FREE DISK\n50.0 GiB\n-\n");
    }

    #[test]
    fn objects_are_flattened() {
        let nested = serde_json::json!({"id": "a", "worker": {"id": "b", "at": {"x": 1}}, "none": null});
        let flat = serde_json::json!({"id": "a", "worker.id": "b", "worker.at.x": 1, "none": null});
        assert_eq!(flattened(nested), flat);
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [
            serde_json::json!({"id": "a", "live_sessions": 10}),
            serde_json::json!({"id": "bcd", "live_sessions": null}),
        ];
        assert_eq!(aligned(&rows, &["id", "live_sessions"]), "ID   LIVE SESSIONS\na    10\nbcd  -\n");
    }
}
