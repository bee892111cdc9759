//! Recipes (contract: recipes): the recorded steps of an agent session. A recipe never changes. Its steps are sealed,
//! because they contain typed text.

mod source;
pub mod steps;
pub mod suggestions;

use kitfleet_types::ids::{AccountId, AgentSessionId, RecipeId};
use kitfleet_types::limits::Limits;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use self::steps::Step;
use crate::accounts::{self, AccountStatus};
use crate::agents::Sealer;
use crate::area::{Area, Bound, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::blocking::run_blocking;
use crate::teams::{self, Role};
use crate::vault::{UnsealError, Vault};

pub use self::source::{SealedSteps, SourceError};

pub(crate) const AREA: Area = Area {
    kept: &[("recipes", "limited per account; kept until the account owner deletes them")],
    actions: &["recipe.created", "recipe.deleted"],
    on_account_delete: &[|conn, account, _| Box::pin(delete_all(conn, account))],
    bounds: &[("recipes", Bound::Account("`limits.recipes` (1,000), each of `limits.recipe_bytes` (256 KiB)"))],
    sealed: &[Sealed {
        kind: "recipes",
        table: "recipes",
        id: "id",
        part: None,
        purpose: PURPOSE,
        has_shared_key: false,
        columns: &[("sealed_steps", |row| RecipeId::from(row.id).to_string())],
    }],
    ..Area::named("recipes")
};

const PURPOSE: &str = "recipes";

#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    pub agents: &'a Sealer,
    pub recipes: &'a Vault,
}

#[derive(Debug, Clone)]
pub struct Recipe {
    pub id: RecipeId,
    pub account_id: AccountId,
    /// `None` after that session was deleted.
    pub agent_session_id: Option<AgentSessionId>,
    pub label: String,
    pub description: String,
    pub intent_count: i32,
    pub created_at: Timestamp,
    /// Equal to `created_at`, because a recipe never changes.
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeTexts {
    label: String,
    description: String,
}

impl RecipeTexts {
    pub fn parse(label: &str, description: Option<&str>, limits: &Limits) -> Result<Self, Invalid> {
        let (label, description) = (label.trim(), description.unwrap_or_default());
        let mut rules = Rules::default();
        rules.length(label, 1, limits.recipe_label_chars, "label");
        rules.length(description, 0, limits.recipe_description_chars, "description");
        rules.check()?;
        Ok(Self { label: label.to_owned(), description: description.to_owned() })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the account has {current} recipes; the limit is {limit}")]
    TooMany { current: i64, limit: i64 },
}

impl From<sqlx::Error> for CreateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Source(error.into())
    }
}

/// Creates a recipe from the steps that an agent session has completed so far, and records `recipe.created`. The account's row is
/// locked, so that simultaneous calls count each other's recipes.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    of: AgentSessionId,
    texts: &RecipeTexts,
    keys: Keys<'_>,
    limits: &Limits,
    actor: &Actor,
) -> Result<Recipe, CreateError> {
    accounts::lock(&mut *conn, account).await?.ok_or(SourceError::NoAgentSession)?;
    let current =
        sqlx::query_scalar!(r#"select count(*) as "count!" from recipes where account_id = $1"#, account as _)
            .fetch_one(&mut *conn)
            .await?;
    let limit = i64::from(limits.recipes);
    require_accessible(&mut *conn, account, of, actor).await?;
    if current >= limit {
        return Err(CreateError::TooMany { current, limit });
    }
    let sealed = source::steps(&mut *conn, of, limits).await?;
    let (count, written) = run_blocking(sealed.weight(), || {
        let steps = sealed.open(keys.agents)?;
        let written = serde_json::to_vec(&steps).map_err(|error| sqlx::Error::Encode(error.into()))?;
        Ok::<_, sqlx::Error>((steps.len(), written))
    })?;
    let (bytes, limit) = (written.len(), limits.recipe_bytes);
    if bytes > limit {
        return Err(SourceError::TooLarge { bytes, limit }.into());
    }
    let id = RecipeId::generate();
    let recipe = sqlx::query_as!(
        Recipe,
        "insert into recipes (id, account_id, agent_session_id, label, description, intent_count, sealed_steps)
         values ($1, $2, $3, $4, $5, $6, $7)
         returning id, account_id, agent_session_id, label, description, intent_count, created_at, updated_at",
        id as _,
        account as _,
        of as _,
        texts.label,
        texts.description,
        i32::try_from(count).unwrap_or(i32::MAX),
        keys.recipes.seal(PURPOSE, &id.to_string(), &written),
    )
    .fetch_one(&mut *conn)
    .await?;
    let payload = json!({"label": recipe.label, "agent_session_id": of, "intent_count": recipe.intent_count});
    let entry = Entry { action: "recipe.created", target: Some(id.to_string()), payload };
    audit::record(conn, account, actor, entry).await?;
    Ok(recipe)
}

pub async fn preview(
    conn: &mut PgConnection,
    account: AccountId,
    of: AgentSessionId,
    limits: &Limits,
    actor: &Actor,
) -> Result<SealedSteps, SourceError> {
    require_accessible(&mut *conn, account, of, actor).await?;
    source::steps(conn, of, limits).await
}

/// Checks that the agent session belongs to the account, or to a team on which the actor is an admin (contract: recipes
/// 3). Locks its row against deletion.
async fn require_accessible(
    conn: &mut PgConnection,
    account: AccountId,
    id: AgentSessionId,
    actor: &Actor,
) -> Result<(), SourceError> {
    let owner = sqlx::query_scalar!("select account_id from agent_sessions where id = $1 for key share", id as _);
    let owner = owner.fetch_optional(&mut *conn).await?.ok_or(SourceError::NoAgentSession)?;
    if owner == account {
        return Ok(());
    }
    let acting = actor.account().ok_or(SourceError::NoAgentSession)?;
    let membership = teams::membership(conn, owner, acting).await?;
    let is_admin = membership.is_some_and(|at| at.role == Role::Admin && at.owner_status == AccountStatus::Active);
    if is_admin { Ok(()) } else { Err(SourceError::NoAgentSession) }
}

/// Newest first.
pub async fn list(
    conn: &mut PgConnection,
    account: AccountId,
    after: Option<RecipeId>,
    limit: i64,
) -> sqlx::Result<Vec<Recipe>> {
    sqlx::query_as!(
        Recipe,
        "select id, account_id, agent_session_id, label, description, intent_count, created_at, updated_at
         from recipes where account_id = $1 and id < $2 order by id desc limit $3",
        account as _,
        after.map_or(Uuid::max(), |after| after.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

pub async fn find(
    conn: &mut PgConnection,
    account: AccountId,
    id: RecipeId,
    vault: &Vault,
) -> Result<Option<(Recipe, Vec<Step>)>, ReadError> {
    let row = sqlx::query!(
        "select id, account_id, agent_session_id, label, description, intent_count, sealed_steps, created_at, updated_at
         from recipes where id = $1 and account_id = $2",
        id as _,
        account as _,
    );
    let Some(row) = row.fetch_optional(conn).await? else { return Ok(None) };
    let written = vault.open(PURPOSE, &id.to_string(), &row.sealed_steps)?;
    let steps = serde_json::from_slice(&written).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let recipe = Recipe {
        id: row.id,
        account_id: row.account_id,
        agent_session_id: row.agent_session_id,
        label: row.label,
        description: row.description,
        intent_count: row.intent_count,
        created_at: row.created_at,
        updated_at: row.updated_at,
    };
    Ok(Some((recipe, steps)))
}

/// Records `recipe.deleted`.
pub async fn delete(conn: &mut PgConnection, account: AccountId, id: RecipeId, actor: &Actor) -> sqlx::Result<bool> {
    let label = sqlx::query_scalar!(
        "delete from recipes where id = $1 and account_id = $2 returning label",
        id as _,
        account as _
    );
    let Some(label) = label.fetch_optional(&mut *conn).await? else { return Ok(false) };
    let entry = Entry { action: "recipe.deleted", target: Some(id.to_string()), payload: json!({"label": label}) };
    audit::record(conn, account, actor, entry).await?;
    Ok(true)
}

async fn delete_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from recipes where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}
