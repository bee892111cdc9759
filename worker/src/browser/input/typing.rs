//! Texts and keys for fields, and options of menus.

use kitfleet_host_protocol::HostCommand;
use kitfleet_types::operations::{Interact, KEY_TAKES, Obstacle};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant as TokioInstant, sleep};

use super::targets::{ElementPosition, InputKind, PATIENCE, Search, TargetState};
use crate::browser::OperationEnd;
use crate::browser::host::CallError;
use crate::browser::pace::KeyDelays;
use crate::browser::page::{self, POLL, PageQuery};
use crate::browser::webkit::Webkit;

/// The page receives the rest as fast as it handles it.
const PACED_KEYS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingText {
    Keep,
    Replace,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum FieldState {
    Absent,
    Hidden,
    Locked,
    /// The menu has no such option, but these.
    Missing {
        options: Value,
    },
    Done,
}

impl Webkit {
    pub(in crate::browser) async fn focus(
        &mut self,
        target: PageQuery<'_>,
        existing: ExistingText,
    ) -> Result<(), OperationEnd> {
        self.enter(target, existing).await.map(drop)
    }

    /// Returns the effect of keys, and whether the field has several lines.
    pub(super) async fn enter(
        &mut self,
        target: PageQuery<'_>,
        existing: ExistingText,
    ) -> Result<(InputKind, bool), OperationEnd> {
        let mut covered = 0;
        for attempt in 0.. {
            let place = match self.reach(target, Search { aims: true, ..Search::attempt(attempt) }).await? {
                Some(TargetState::Ready(place)) => Some(place),
                Some(TargetState::Covered(place) | TargetState::Outside(place)) => {
                    covered += 1;
                    (covered > PATIENCE || place.has_focus).then_some(place)
                }
                _ => None,
            };
            if let Some(place) = place
                && self.focus_at(target, &place, covered > 0, existing).await?
            {
                return Ok((place.takes, place.multiline));
            }
            sleep(POLL).await;
        }
        unreachable!("the loop has no end")
    }

    async fn focus_at(
        &mut self,
        target: PageQuery<'_>,
        place: &ElementPosition,
        covered: bool,
        existing: ExistingText,
    ) -> Result<bool, OperationEnd> {
        if place.takes == InputKind::Nothing {
            return Err(OperationEnd::invalid(target.field(), "must be an element that takes text"));
        }
        if place.locked {
            let obstacle = if place.disabled { Obstacle::Disabled } else { Obstacle::NotEditable };
            self.record_obstacle(obstacle, "the field is disabled or read-only");
            return Ok(false);
        }
        // A tap would open a menu or a picker. Keys also choose an option of a menu that is closed. A caret that is in
        // the field already stays where it is.
        let has_caret = place.has_focus && place.entered;
        if !covered && !has_caret && place.takes == InputKind::Text && !self.tap_field(place).await? {
            return Ok(false);
        }
        self.record_obstacle(Obstacle::NotEditable, "the field does not take the focus");
        let replace = existing == ExistingText::Replace;
        let input = self.input(json!({ "target": target, "replace": replace, "sensitive": self.is_sensitive }));
        Ok(page::ask(&self.host, page::FOCUS.about(target), &input).await?.unwrap_or(false))
    }

    pub(super) async fn type_text(
        &mut self,
        interact: &Interact,
        text: &str,
        delay_ms: Option<u64>,
        multiline: bool,
    ) -> Result<(), OperationEnd> {
        let mut keys = keys_of(text, "action.text", multiline)?;
        if let Some(ms) = delay_ms {
            return self.type_keys(keys, KeyDelays::exactly(ms)).await;
        }
        let needed = KEY_TAKES.saturating_mul(u32::try_from(keys.len()).unwrap_or(u32::MAX));
        let rest = keys.split_off(keys.len().min(PACED_KEYS));
        let pauses = self.pace.typing(keys.len(), interact.timeout.saturating_sub(needed) / 2);
        self.type_keys(keys, pauses).await?;
        self.type_keys(rest, KeyDelays::None).await
    }

    pub(super) async fn replace_content(&mut self, target: PageQuery<'_>, value: &str) -> Result<(), OperationEnd> {
        let (takes, multiline) = self.enter(target, ExistingText::Replace).await?;
        match takes {
            InputKind::Choice => return Err(OperationEnd::invalid(target.field(), "is a menu: use select")),
            InputKind::Value => {}
            InputKind::Text | InputKind::Nothing => {
                self.obstacle = "the text was not inserted";
                let keys = keys_of(value, "action.value", multiline)?;
                let by_lines = multiline && value.contains(['\n', '\r']);
                let text = if by_lines { String::new() } else { value.to_owned() };
                self.delivered = true;
                self.host.call::<()>(HostCommand::InsertText { text }).await?;
                if by_lines {
                    self.press(keys).await?;
                }
            }
        }
        // `clear` has no value.
        let field = if value.is_empty() { target.field() } else { "action.value" };
        self.fill_value(target, value, field).await
    }

    /// Sets the value of a field, if its text was not inserted, and fires the events of a change.
    pub(super) async fn fill_value(
        &mut self,
        target: PageQuery<'_>,
        value: &str,
        field: &str,
    ) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "value": value, "field": field }));
        loop {
            match page::ask(&self.host, page::FILL.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(FieldState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(FieldState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
                Some(FieldState::Locked) => {
                    self.record_obstacle(Obstacle::Disabled, "the field is disabled or read-only");
                }
                Some(FieldState::Missing { .. } | FieldState::Done) => {
                    self.delivered = true;
                    return Ok(());
                }
            }
            sleep(POLL).await;
        }
    }

    /// Types into the focused element.
    pub(in crate::browser) async fn type_keys(
        &mut self,
        keys: Vec<String>,
        pauses: KeyDelays,
    ) -> Result<(), OperationEnd> {
        self.obstacle = "the text was not typed completely";
        self.delivered |= !keys.is_empty();
        if let KeyDelays::None = pauses {
            // The host inserts a long text in chunks: 1 s instead of 1 min.
            return Ok(self.press(keys).await?);
        }
        let mut due = TokioInstant::now();
        for key in keys {
            tokio::time::sleep_until(due).await;
            self.press(vec![key]).await?;
            due += pauses.next();
        }
        Ok(())
    }

    pub(in crate::browser) async fn press(&mut self, keys: Vec<String>) -> Result<(), CallError> {
        self.host.call(HostCommand::Keys { keys }).await
    }

    /// Sends no event if it is already chosen.
    pub(super) async fn choose(
        &mut self,
        target: PageQuery<'_>,
        options: &[String],
        is_list: bool,
    ) -> Result<(), OperationEnd> {
        let input = self.input(json!({ "target": target, "options": options, "is_list": is_list }));
        loop {
            match page::ask(&self.host, page::CHOOSE.about(target), &input).await? {
                None => self.obstacle = "the page does not answer",
                Some(FieldState::Absent) => self.record_obstacle(Obstacle::NotFound, "no element matches"),
                Some(FieldState::Hidden) => self.record_obstacle(Obstacle::NotVisible, "the element is not visible"),
                Some(FieldState::Locked) => {
                    self.record_obstacle(Obstacle::Disabled, "the menu or its option is disabled");
                }
                Some(FieldState::Missing { options }) => {
                    self.record_obstacle(Obstacle::NoOption, "the menu has no such option");
                    self.options = Some(options);
                }
                Some(FieldState::Done) => {
                    self.delivered = true;
                    return Ok(());
                }
            }
            sleep(POLL).await;
        }
    }
}

/// A line break is Enter. A tab moves to the next field, except in a field of several lines, which receives it as text.
pub fn keys_of(text: &str, field: &str, multiline: bool) -> Result<Vec<String>, OperationEnd> {
    let key_of = |character| match character {
        '\n' => Ok("Enter".to_owned()),
        '\t' if !multiline => Ok("Tab".to_owned()),
        '\t' => Ok("\t".to_owned()),
        character if char::is_control(character) => {
            Err(OperationEnd::invalid(field, "must not have control characters other than line breaks and tabs"))
        }
        character => Ok(character.to_string()),
    };
    text.replace("\r\n", "\n").replace('\r', "\n").chars().map(key_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_converted_to_keys() {
        let keys = |multiline| keys_of("né\r\n\t😀", "action.text", multiline).expect("these are keys");
        assert_eq!(keys(false), ["n", "é", "Enter", "Tab", "😀"]);
        assert_eq!(keys(true), ["n", "é", "Enter", "\t", "😀"]);
        assert!(matches!(keys_of("a\u{7}", "action.text", false), Err(OperationEnd::Invalid { .. })));
    }
}
