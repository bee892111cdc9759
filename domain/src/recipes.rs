//! Recipes (contract: recipes): what was done in an agent session, step by step. A recipe is captured once and never changes; its
//! steps are sealed, because they hold what was typed.

mod source;
pub mod steps;
pub mod suggestions;

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use self::steps::Step;
use crate::accounts::{self, AccountStatus};
use crate::agents::Sealer;
use crate::area::{Area, Bound, Sealed};
use crate::audit::{self, Actor, Entry};
use crate::blocking::run_blocking;
use crate::ids::{AccountId, AgentSessionId, RecipeId};
use crate::limits::Limits;
use crate::teams::{self, Role};
use crate::timestamp::Timestamp;
use crate::validation::{Invalid, Rules};
use crate::vault::{UnsealError, Vault};

pub use self::source::{SealedSteps, SourceError};

pub(crate) const AREA: Area = Area {
    kept: &[("recipes", "so many an account, until somebody deletes them")],
    actions: &["recipe.created", "recipe.deleted"],
    losses: &[|conn, account, _| Box::pin(delete_all(conn, account))],
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

/// What the vault is told the steps are for.
const PURPOSE: &str = "recipes";

/// What opens the steps of agent sessions, and seals those of recipes.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    /// The one.
    pub agents: &'a Sealer,
    /// And the other.
    pub recipes: &'a Vault,
}

/// A recipe, as customers see it in a list.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Its id.
    pub id: RecipeId,
    /// Whose it is.
    pub account_id: AccountId,
    /// What it was made of; `None` once that is gone.
    pub agent_session_id: Option<AgentSessionId>,
    /// What its maker calls it.
    pub label: String,
    /// What its maker says of it.
    pub description: String,
    /// How many steps it has.
    pub intent_count: i32,
    /// When it was made.
    pub created_at: Timestamp,
    /// The same: it never changes.
    pub updated_at: Timestamp,
}

/// What its maker says of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeTexts {
    label: String,
    description: String,
}

impl RecipeTexts {
    /// # Errors
    /// On `label`, when it does not have 1 to 120 characters without the white space around it, and on `description`, when it has
    /// more than 2,000.
    pub fn parse(label: &str, description: Option<&str>, limits: &Limits) -> Result<Self, Invalid> {
        let (label, description) = (label.trim(), description.unwrap_or_default());
        let mut rules = Rules::default();
        rules.length(label, 1, limits.recipe_label_chars, "label");
        rules.length(description, 0, limits.recipe_description_chars, "description");
        rules.check()?;
        Ok(Self { label: label.to_owned(), description: description.to_owned() })
    }
}

/// Why there is no new recipe.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Its steps cannot be had.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The account has as many as it may have.
    #[error("the account has {current} recipes; the limit is {limit}")]
    TooMany {
        /// Now.
        current: i64,
        /// Allowed.
        limit: i64,
    },
}

impl From<sqlx::Error> for CreateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Source(error.into())
    }
}

/// Makes a recipe of what was done in an agent session up to now, and writes `recipe.created`. The account's row is locked
/// meanwhile, so that those that are made at once count each other.
///
/// # Errors
/// When the account may not see such an agent session, its steps are too many, the account has as many recipes
/// as it may have, or the database fails.
pub async fn create(
    conn: &mut PgConnection,
    account: AccountId,
    of: AgentSessionId,
    words: &RecipeTexts,
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
        words.label,
        words.description,
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

/// What was done in an agent session up to now, for whoever thinks of making a recipe of it.
///
/// # Errors
/// When the account may not see such an agent session, its steps are too many, or the database fails.
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

/// Sees to it that an agent session stays, which is the account's, or that of a team on which the actor is admin
/// (contract: recipes 3).
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
    let standing = teams::standing(conn, owner, acting).await?;
    let is_admin = standing.is_some_and(|at| at.role == Role::Admin && at.owner_status == AccountStatus::Active);
    if is_admin { Ok(()) } else { Err(SourceError::NoAgentSession) }
}

/// The account's recipes, newest first, at most `limit`, beginning behind `after`.
///
/// # Errors
/// When the database fails.
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

/// Why a recipe cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Its steps were sealed with a key that this process does not have.
    #[error(transparent)]
    Sealed(#[from] UnsealError),
    /// The database failed.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// The account's recipe of this id, with its steps.
///
/// # Errors
/// When its steps cannot be opened, or the database fails.
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

/// Deletes the account's recipe, and writes `recipe.deleted`. `false` when it has no such recipe.
///
/// # Errors
/// When the database fails.
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

/// Deletes all recipes of an account that is being deleted.
async fn delete_all(conn: &mut PgConnection, account: AccountId) -> sqlx::Result<()> {
    sqlx::query!("delete from recipes where account_id = $1", account as _).execute(conn).await?;
    Ok(())
}
