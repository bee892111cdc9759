//! Taps on elements and points.

use std::time::Duration;

use kitfleet_host_protocol::{HostCommand, TouchOutcome, TouchPhase, TouchStep};
use kitfleet_types::operations::{Obstacle, Point};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant as TokioInstant, sleep};

use super::targets::{ElementPosition, Search, TargetState};
use crate::browser::OperationEnd;
use crate::browser::page::{self, POLL, PageQuery};
use crate::browser::webkit::Webkit;

/// Time after a touch within which GTK may count the next tap as a part of it. GTK's own limit is 400 ms.
const DOUBLE_TAP: Duration = Duration::from_millis(450);

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum CheckState {
    Absent,
    Hidden,
    Known {
        /// `None` for a mixed state.
        checked: Option<bool>,
    },
}

impl Webkit {
    pub(in crate::browser) async fn tap(&mut self, target: PageQuery<'_>) -> Result<(), OperationEnd> {
        let hold_ms = self.pace.hold_ms();
        self.tap_with(target, None, hold_ms).await
    }

    /// Repeats a tap that misses the element.
    pub(in crate::browser) async fn tap_with(
        &mut self,
        target: PageQuery<'_>,
        at: Option<Point>,
        hold_ms: u64,
    ) -> Result<(), OperationEnd> {
        for attempt in 0.. {
            let search = Search { at, aims: true, ..Search::attempt(attempt) };
            if let Some(TargetState::Ready(place)) = self.reach(target, search).await? {
                self.touched = (place.x, place.y);
                if place.disabled {
                    self.record_obstacle(Obstacle::Disabled, "the element is disabled");
                } else if self.touch(self.touched, true, hold_ms).await? {
                    break;
                }
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits before a multiple tap until it is separate from the last touch. Otherwise GTK counts a tap at the same place as its
    /// continuation, and counts only from the second tap at another place.
    pub(super) async fn await_single_taps(&self, count: u8) {
        if count > 1
            && let Some(last) = self.touched_at
        {
            tokio::time::sleep_until(last + DOUBLE_TAP).await;
        }
    }

    pub(super) async fn tap_again(&mut self, times: u8, hold_ms: u64) -> Result<(), OperationEnd> {
        for _ in 0..times {
            self.touch(self.touched, false, hold_ms).await?;
        }
        Ok(())
    }

    pub(super) async fn check(&mut self, target: PageQuery<'_>, wanted: bool) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "checked": wanted }));
        let mut is_tapped = false;
        loop {
            match page::ask(&self.host, page::CHECKED.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(CheckState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(CheckState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
                Some(CheckState::Known { checked }) if checked == Some(wanted) => return Ok(()),
                Some(CheckState::Known { .. }) if is_tapped => {
                    self.obstacle = "the control does not change its state";
                }
                Some(CheckState::Known { .. }) => {
                    self.tap(target).await?;
                    is_tapped = true;
                    continue;
                }
            }
            sleep(POLL).await;
        }
    }

    pub(super) async fn tap_field(&mut self, place: &ElementPosition) -> Result<bool, OperationEnd> {
        let hold_ms = self.pace.hold_ms();
        self.touch((place.x, place.y), true, hold_ms).await
    }

    /// Returns whether an `aimed` tap has reached its element.
    pub(super) async fn touch(&mut self, (x, y): (f64, f64), aimed: bool, hold_ms: u64) -> Result<bool, OperationEnd> {
        self.obstacle = "the page does not react to the tap";
        let land = TouchStep { phase: TouchPhase::Begin, x, y, after_ms: 0 };
        let lift = TouchStep { phase: TouchPhase::End, x, y, after_ms: hold_ms };
        // A touch that misses the element has reached the page, which received everything but the click.
        self.delivered = true;
        let outcome: TouchOutcome = self.host.call(HostCommand::Touch { steps: vec![land, lift], aimed }).await?;
        self.touched_at = Some(TokioInstant::now());
        if outcome == TouchOutcome::Missed {
            self.record_obstacle(Obstacle::Moving, "the element has moved away from the tap");
        }
        Ok(outcome == TouchOutcome::Done)
    }
}
