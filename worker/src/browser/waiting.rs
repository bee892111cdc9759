//! Texts, scripts, responses and loads (contract: operations 16, 17).

use kitfleet_host_protocol::{HostCommand, LoadProgress, ResponseEntry, ScriptEnd, ScriptException, ScriptRun};
use kitfleet_types::operations::{self, PageResponse, Refusal, ScriptText, Target, WaitException};
use serde_json::json;
use tokio::time::sleep;

use super::OperationEnd;
use super::dialogs::storable;
use super::evaluating::syntax_message;
use super::page::{self, POLL, PageQuery};
use super::webkit::Webkit;

impl Webkit {
    /// Visible, in any frame.
    pub(super) async fn wait_for_text(&mut self, text: &str) -> Result<(), OperationEnd> {
        let target = Target::Text(text.to_owned());
        self.wait_for_query(PageQuery::Target { target: &target, field: "condition.text", exact: false }, true).await
    }

    /// `visible` false waits until none is visible.
    pub(super) async fn wait_for_query(&mut self, query: PageQuery<'_>, visible: bool) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": query, "until_hidden": !visible }));
        while page::ask::<bool>(&self.host, page::VISIBLE.about(query), &input).await? != Some(visible) {
            sleep(POLL).await;
        }
        Ok(())
    }

    pub(super) async fn wait_for_script(&mut self, script: &ScriptText) -> Result<(), OperationEnd> {
        let ScriptText(script) = script;
        if self.holds_submissions {
            return Err(OperationEnd::Refused(Refusal::SubmissionsHeld));
        }
        let limit_bytes = self.limits.result_bytes as u64;
        loop {
            let arguments = "[]".to_owned();
            let command = HostCommand::RunScript { script: script.clone(), arguments, limit_bytes, as_condition: true };
            let ScriptRun { end, .. } = self.host.call(command).await?;
            self.exception = match end {
                ScriptEnd::Value(value) if value.get() == "true" => return Ok(()),
                ScriptEnd::SyntaxError(error) => {
                    return Err(OperationEnd::invalid("condition.script", syntax_message(&error)));
                }
                ScriptEnd::Exception(ScriptException { name, message, .. }) => {
                    Some(WaitException { name: start(&name, 100), message: start(&message, 1_000) })
                }
                ScriptEnd::Value(_) | ScriptEnd::TooLarge(_) | ScriptEnd::Replaced => None,
            };
            sleep(POLL).await;
        }
    }

    pub(super) async fn wait_for_response(
        &self,
        url_pattern: &str,
        status: Option<u16>,
    ) -> Result<PageResponse, OperationEnd> {
        let pattern = self.patterns.compile(url_pattern, "condition.url_pattern").await?;
        let (mut after, since_us) = (0, self.began_us[0]);
        loop {
            let mut entries: Vec<ResponseEntry> = self.ask_host(HostCommand::Responses { after, since_us }).await?;
            after = entries.iter().map(|entry| entry.number).fold(after, u64::max);
            entries.retain(|entry| status.is_none_or(|status| entry.status == status));
            if !entries.is_empty() {
                let addresses = entries.iter().map(|entry| entry.uri.clone()).collect();
                if let Some(found) = self.patterns.first_match(&pattern, addresses).await? {
                    let ResponseEntry { uri, status, .. } = entries.swap_remove(found);
                    return Ok(PageResponse { url: uri, status });
                }
            }
            sleep(POLL).await;
        }
    }

    pub(super) async fn wait_for_load(&mut self, state: operations::WaitUntil) -> Result<(), OperationEnd> {
        loop {
            let progress: LoadProgress = self.ask_host(HostCommand::LoadProgress).await?;
            let is_reached = match state {
                operations::WaitUntil::DomContentLoaded => progress.dom_content_loaded,
                operations::WaitUntil::Load => progress.loaded,
                operations::WaitUntil::NetworkIdle => progress.network_idle,
            };
            if is_reached {
                return Ok(());
            }
            self.obstacle = if progress.has_failed { "the last load of the page failed" } else { "" };
            sleep(POLL).await;
        }
    }
}

fn start(text: &str, max_chars: usize) -> String {
    storable(&text.chars().take(max_chars).collect::<String>())
}
