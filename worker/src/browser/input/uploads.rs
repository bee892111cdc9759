//! Uploads through file choosers.

use std::time::Duration;

use kitfleet_host_protocol::{ChooserState, HostCommand, OpenChooser};
use kitfleet_types::files::FileName;
use kitfleet_types::ids::UploadId;
use kitfleet_types::operations::{Element, Obstacle};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant as TokioInstant, sleep};

use super::targets::{PATIENCE, Search, TargetState};
use crate::browser::OperationEnd;
use crate::browser::files::UploadGuard;
use crate::browser::host::driver_failure;
use crate::browser::page::{self, POLL, PageQuery};
use crate::browser::webkit::Webkit;

/// A page may load something first.
const CHOOSER_WITHIN: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum UploadTarget {
    Absent,
    Disabled,
    Input { multiple: bool },
    Other,
}

impl Webkit {
    pub(super) async fn upload(
        &mut self,
        element: Option<&Element>,
        upload: UploadId,
        attached: Option<&FileName>,
    ) -> Result<(), OperationEnd> {
        let copied = match attached {
            Some(name) => Some(self.copy_attached(name).await?),
            None => None,
        };
        let upload = copied.as_ref().map_or(upload, UploadGuard::id);
        let lost = || OperationEnd::invalid("action.files", "did not reach the browser: send the request again");
        let files = self.files.waiting(upload).ok_or_else(lost)?;
        if let Some(element) = element {
            self.open_chooser(PageQuery::written(element, &element.field("action")), files).await?;
        } else if self.chooser().await?.is_none() {
            let message = "is required, because no file chooser is open";
            return Err(OperationEnd::invalid("action.selector", message));
        }
        let upload = self.files.take(upload).ok_or_else(lost)?;
        let handed = upload.hand_over(self.host.directory(), &self.confinement).await;
        let (handed, files) = handed.map_err(|error| {
            OperationEnd::Failed(driver_failure(format!("the files cannot be given to the browser: {error}")))
        })?;
        self.uploads.add(handed).await;
        match self.host.call(HostCommand::SelectFiles { files }).await? {
            ChooserState::Selected => self.delivered = true,
            ChooserState::Rejected => return Err(too_many_files()),
            ChooserState::NoChooser => {
                return Err(OperationEnd::invalid(
                    "action.files",
                    "were not selected, because the file chooser was closed",
                ));
            }
        }
        Ok(())
    }

    async fn copy_attached(&self, name: &FileName) -> Result<UploadGuard, OperationEnd> {
        let copied = self.files.copy_attached(name).await;
        let copied = copied.map_err(|error| driver_failure(format!("an attached file cannot be copied: {error}")));
        let missing = || OperationEnd::invalid("action.files", format!("no file {name} is attached"));
        copied.map_err(OperationEnd::Failed)?.ok_or_else(missing)
    }

    async fn open_chooser(&mut self, target: PageQuery<'_>, files: usize) -> Result<(), OperationEnd> {
        for attempt in 0.. {
            let input = self.input(json!({ "target": target, "opens": false }));
            match page::ask(&self.host, page::UPLOAD.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(UploadTarget::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(UploadTarget::Disabled) => self.record_obstacle(Obstacle::Disabled, "the file input is disabled"),
                Some(UploadTarget::Input { multiple: false }) if files > 1 => return Err(too_many_files()),
                Some(UploadTarget::Input { .. }) => {
                    if self.activate_input(target, attempt).await? {
                        if self.chooser_opens().await? {
                            return Ok(());
                        }
                        self.obstacle = "the file input opens no chooser";
                    }
                }
                Some(UploadTarget::Other) => {
                    self.tap(target).await?;
                    if self.chooser_opens().await? {
                        return Ok(());
                    }
                    let message = "must be a file input, or an element that opens a file chooser when it is tapped";
                    return Err(OperationEnd::invalid(target.field(), message));
                }
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// A script activates an input that a user cannot tap now. Returns whether it was activated.
    async fn activate_input(&mut self, target: PageQuery<'_>, attempt: u32) -> Result<bool, OperationEnd> {
        match self.reach(target, Search { aims: true, ..Search::attempt(attempt) }).await? {
            // The chooser did not open after a tap, so a script is tried next.
            Some(TargetState::Ready(place)) if attempt.is_multiple_of(2) => {
                return self.tap_field(&place).await;
            }
            Some(TargetState::Moving | TargetState::Covered(_) | TargetState::Outside(_)) if attempt < PATIENCE => {
                return Ok(false);
            }
            _ => {}
        }
        let input = self.input(json!({ "target": target, "opens": true }));
        let activated = page::ask_once(&self.host, page::UPLOAD.about(target), &input).await?;
        Ok(matches!(activated, Some(UploadTarget::Input { .. })))
    }

    async fn chooser(&self) -> Result<Option<OpenChooser>, OperationEnd> {
        Ok(self.host.call(HostCommand::ChooserOpen).await?)
    }

    async fn chooser_opens(&self) -> Result<bool, OperationEnd> {
        let given_up = TokioInstant::now() + CHOOSER_WITHIN;
        loop {
            if self.chooser().await?.is_some() {
                return Ok(true);
            }
            if TokioInstant::now() >= given_up {
                return Ok(false);
            }
            sleep(POLL).await;
        }
    }
}

fn too_many_files() -> OperationEnd {
    OperationEnd::invalid("action.files", "must be one file, because the file input has no `multiple` attribute")
}
