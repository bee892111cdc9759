//! Commands of the binary, run as an operator runs them.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use super::App;

#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    pub fn code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// On standard error.
    pub fn error_text(&self) -> &str {
        let lines: Vec<_> = self.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        let [line] = lines[..] else { panic!("not one line: {self:?}") };
        line
    }
}

pub async fn run(command: std::process::Command, input: &str) -> CommandOutput {
    run_within(Duration::from_mins(1), command, input).await
}

pub async fn run_within(limit: Duration, command: std::process::Command, input: &str) -> CommandOutput {
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that does not read its input may have ended before the write.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let ended = tokio::time::timeout(limit, child.wait_with_output()).await;
    let output = ended.expect("the command ends").expect("a child");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    CommandOutput { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl App {
    /// With the database and the settings of this service.
    pub async fn run(&self, args: &[&str]) -> CommandOutput {
        run(self.command(args), "").await
    }
}

/// In this folder, without any configuration.
pub fn alone(folder: &Path, args: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kitfleet"));
    command.args(args).env_clear().current_dir(folder);
    for name in ["PATH", "HOME", "LANG", "TMPDIR"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}
