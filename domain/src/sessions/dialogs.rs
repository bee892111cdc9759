//! Dialogs that are held open (contract: operations 46 to 49). The claim reads the dialog in the session's row. An
//! operation stores it as it ends; between operations the worker does.

use kitfleet_types::ids::{SessionId, WorkerId};
use kitfleet_types::operations::OpenDialog;
use serde_json::json;
use sqlx::PgConnection;

/// Change of the dialog in a session's row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DialogChange {
    /// The row is up to date.
    #[default]
    Keep,
    /// The dialog was answered, or has expired.
    Closed,
    Opened(OpenDialog),
}

impl DialogChange {
    /// Returns the change from the dialog in the row to the one that is open.
    #[must_use]
    pub fn between(stored: Option<&OpenDialog>, open: Option<&OpenDialog>) -> Self {
        match open {
            _ if stored == open => Self::Keep,
            Some(dialog) => Self::Opened(dialog.clone()),
            None => Self::Closed,
        }
    }

    pub(super) fn dialog(&self) -> Option<&OpenDialog> {
        match self {
            Self::Opened(dialog) => Some(dialog),
            Self::Keep | Self::Closed => None,
        }
    }
}

/// `None` if no dialog is open. A running operation continues.
pub async fn store(
    conn: &mut PgConnection,
    worker: WorkerId,
    session: SessionId,
    dialog: Option<&OpenDialog>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update sessions set dialog = $3, updated_at = now() where id = $1 and worker_id = $2 and live",
        session as _,
        worker as _,
        dialog.map(|dialog| json!(dialog)),
    )
    .execute(conn)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use kitfleet_types::operations::DialogType;

    use super::*;

    #[test]
    fn row_changes_only_with_the_dialog() {
        let dialog =
            |message: &str| OpenDialog { kind: DialogType::Alert, message: message.to_owned(), default_value: None };
        let (one, other) = (dialog("one"), dialog("other"));
        assert_eq!(DialogChange::between(None, None), DialogChange::Keep);
        assert_eq!(DialogChange::between(Some(&one), Some(&one)), DialogChange::Keep);
        assert_eq!(DialogChange::between(Some(&one), Some(&other)), DialogChange::Opened(other));
        assert_eq!(DialogChange::between(Some(&one), None), DialogChange::Closed);
    }
}
