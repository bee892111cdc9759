//! What recipes are made of: the steps that an agent session has carried out.

use sqlx::PgConnection;

use super::steps::Step;
use crate::ids::AgentSessionId;
use crate::limits::Limits;
use crate::vault::{CannotOpen, Vault};

/// Why the steps of an agent session cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is none that the account may see.
    #[error("there is no agent session with this id")]
    NoAgentSession,
    /// There are too many for a recipe.
    #[error("the agent session has more steps than a recipe may have, which is {0}")]
    TooMany(u32),
    /// They were sealed with a key that this process does not have.
    #[error(transparent)]
    Sealed(#[from] CannotOpen),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The steps of plans that were done, in the order in which they were (contract: recipes 5).
///
/// # Errors
/// When there are too many, they cannot be opened, or the database fails.
pub(super) async fn steps(
    conn: &mut PgConnection,
    of: AgentSessionId,
    vault: &Vault,
    limits: &Limits,
) -> Result<Vec<Step>, SourceError> {
    let rows = sqlx::query!(
        "select s.id, s.sealed_wish from agent_steps s join agent_turns t on t.id = s.turn_id
         where s.agent_session_id = $1 and s.status = 'done' and t.kind = 'plan'
         order by s.turn_id, s.position limit $2",
        of as _,
        i64::from(limits.recipe_steps) + 1,
    )
    .fetch_all(conn)
    .await?;
    if rows.len() > limits.recipe_steps as usize {
        return Err(SourceError::TooMany(limits.recipe_steps));
    }
    let opened = rows.iter().map(|row| {
        let written = vault.open("agents", &row.id.to_string(), &row.sealed_wish)?;
        Ok(serde_json::from_slice(&written).map_err(|error| sqlx::Error::Decode(error.into()))?)
    });
    opened.collect()
}
