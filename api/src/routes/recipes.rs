//! Recipes: recorded steps of an agent session, also available as a program (contract: recipes).

mod programs;
mod wire;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::blocking::run_blocking;
use kitfleet_domain::cursors::CursorScope;
use kitfleet_domain::recipes::suggestions::suggest;
use kitfleet_domain::recipes::{self, CreateError, Keys, ReadError, RecipeTexts, SourceError};
use kitfleet_domain::teams::Role;
use kitfleet_types::ids::{AgentSessionId, RecipeId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use self::programs::Language;
use self::wire::{Recipe, RecipeWithSteps};
use crate::http::auth::Caller;
use crate::http::body::{CountedBody, counted_json};
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Unchecked};
use crate::http::kinds;
use crate::http::lists::{self, ListItem, Page, Paging, Query};
use crate::http::openapi::{Body, Database, Full, InvalidQuery, NoAgentSession, NoRecipe, Restricted};
use crate::http::path::{IdPath, not_found};
use crate::http::permissions::Rule;
use crate::http::routing::Routes;
use crate::http::state::App;

const READ_RECIPES: Rule = Rule::scope(Scope::ReadAgents);
const WRITE_RECIPES: Rule = Rule::scope(Scope::WriteAgents);
/// A suggestion reveals steps of the agent session, so it needs the right to read agent sessions.
const READ_AGENTS: Rule = Rule::scope(Scope::ReadAgents).for_team(Role::Admin).open_to_free_devices();

/// Feature that needs the deployment's own key. A key stored beside the data it seals would not protect the data.
const SEALED: &str = "recipes";

pub fn routes() -> Routes {
    Routes::new()
        .allow(WRITE_RECIPES, routes!(create))
        .allow(READ_RECIPES, routes!(list))
        .allow(READ_RECIPES, routes!(get))
        .allow(WRITE_RECIPES, routes!(delete))
        .allow(READ_AGENTS, routes!(suggestion))
}

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::NoAgentSession => not_found::<AgentSessionId>(),
            SourceError::TooMany(_) | SourceError::TooLarge { .. } => {
                Self::invalid("agent_session_id", error.to_string())
            }
            SourceError::Database(error) => error.into(),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Source(error) => error.into(),
            CreateError::TooMany { current, limit } => {
                Self::new(&kinds::CONFLICT, error.to_string()).with("current_recipes", current).with("limit", limit)
            }
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Sealed(error) => {
                tracing::error!(%error, "recipe was sealed with another key: see mfa.retired_encryption_keys");
                let detail = "this deployment lacks the key that the recipe was sealed with";
                Self::new(&kinds::FEATURE_UNAVAILABLE, detail)
            }
            ReadError::Database(error) => error.into(),
        }
    }
}

/// Body of a recipe's creation
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"agent_session_id": "agt_019aa1d4-22b1-7c06-8f7e-0d4a8b6c1e90", "label": "Sign in at example.com"}))]
struct CreateRecipe {
    /// Agent session whose steps become the recipe. It must belong to the caller, or to an account whose team has the caller as
    /// admin
    agent_session_id: String,
    /// Label; leading and trailing white space is removed
    #[schema(min_length = 1)]
    label: String,
    /// Description
    #[schema(max_length = 2_000)]
    description: Option<String>,
}

/// Create a recipe
///
/// Records the steps of an agent session that were performed as parts of plans, in their order. A recipe never changes, whatever
/// happens to the agent session.
#[utoipa::path(
    post, path = "/v1/recipes", tag = "Recipes", operation_id = "createRecipe",
    request_body = CreateRecipe,
    responses(
        (status = 201, description = "The recipe", body = Recipe,
         headers(("Location" = String, description = "The recipe's path"))),
        Restricted, Body, NoAgentSession, Full, Database,
    ),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    body: Unchecked<CreateRecipe>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Answer<Recipe>)> {
    let limits = &app.config.limits;
    let texts = |body: &CreateRecipe| RecipeTexts::parse(&body.label, body.description.as_deref(), limits);
    let body = body.typed(|body| texts(body).map(drop))?;
    let keys = Keys { agents: app.agents().await?, recipes: app.own_vault(SEALED)? };
    let texts = texts(&body)?;
    let of = body.agent_session_id.parse().map_err(|_| not_found::<AgentSessionId>())?;
    let _turn = app.readings.turn(caller.account_id).await?;
    let mut tx = app.begin_change(caller.account_id).await?;
    let recipe = recipes::create(&mut tx, caller.account_id, of, &texts, keys, limits, &caller.actor).await?;
    tx.commit().await?;
    let location = [(LOCATION, format!("/v1/recipes/{}", recipe.id))];
    Ok((StatusCode::CREATED, location, Answer(recipe.into())))
}

type RecipeList = Page<Recipe>;

impl ListItem for Recipe {
    const LIST: &'static str = "RecipeList";
    const MEANING: &'static str = "A page of recipes, newest first, without their steps";
}

/// List recipes
#[utoipa::path(
    get, path = "/v1/recipes", tag = "Recipes", operation_id = "listRecipes",
    params(Paging),
    responses((status = 200, description = "A page", body = RecipeList), Restricted, InvalidQuery, Database),
)]
async fn list(caller: Caller, State(app): State<App>, query: Query) -> Result<Answer<RecipeList>> {
    app.own_vault(SEALED)?;
    let account = caller.account_id;
    let scope = CursorScope { account, list: "recipes", filters: &[] };
    let id_of = |recipe: &recipes::Recipe| recipe.id.as_uuid();
    let page = lists::page(&app, &query, scope, id_of, async |conn, after, limit| {
        recipes::list(conn, account, after.map(RecipeId::from), limit).await
    });
    Ok(Answer(page.await?.map(Recipe::from)))
}

/// Format of a recipe
#[derive(ToSchema)]
#[schema(title = "RecipeFormat", rename_all = "snake_case")]
#[expect(dead_code, reason = "it only describes the values of `format`")]
enum ReadAs {
    Json,
    Curl,
    Python,
    Typescript,
}

/// Get a recipe
///
/// Returns the recipe with its steps, without typed texts. With a `format` other than `json` it returns a program that performs
/// the steps with plain calls of this API: `curl` for Bash, `python` for its standard library, `typescript` for Node. The program
/// reads the texts to type from environment variables.
#[utoipa::path(
    get, path = "/v1/recipes/{id}", tag = "Recipes", operation_id = "getRecipe",
    params(IdPath<RecipeId>, ("format" = inline(Option<ReadAs>), Query, description = "Format; `json` by default")),
    responses(
        (status = 200, description = "The recipe", content(
            (RecipeWithSteps = "application/json"), (String = "text/x-shellscript"), (String = "text/x-python"),
            (String = "text/x-typescript"),
         ),
         headers(("Content-Disposition" = String, description = "A program's file name"))),
        Restricted, InvalidQuery, NoRecipe, Database,
    ),
)]
async fn get(caller: Caller, State(app): State<App>, path: IdPath<RecipeId>, query: Query) -> Result<Response> {
    let language = match query.text("format")? {
        None | Some("json") => None,
        Some(name) => Some(
            Language::named(name)
                .ok_or_else(|| Problem::invalid("format", "must be one of json, curl, python, typescript"))?,
        ),
    };
    let vault = app.own_vault(SEALED)?;
    // The size of a response is proportional to that of the steps. One character can become six characters in a program.
    let bytes = app.config.limits.recipe_bytes;
    let reservation = app.answers.reserve(caller.account_id, bytes as u64 * 6).await?;
    let found = recipes::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?, vault).await?;
    let (recipe, steps) = found.ok_or_else(not_found::<RecipeId>)?;
    let Some(language) = language else {
        let text = run_blocking(bytes, || serde_json::to_vec(&RecipeWithSteps::new(recipe, steps)));
        return Ok(counted_json(text.map_err(|error| Problem::internal(&error))?, reservation));
    };
    let program = run_blocking(bytes, || language.write(&recipe.label, &steps, &app.config.base_url));
    let disposition = format!("attachment; filename=recipe.{}", language.extension());
    let content_type = format!("{}; charset=utf-8", language.content_type());
    Ok(([(CONTENT_TYPE, content_type), (CONTENT_DISPOSITION, disposition)], CountedBody::of(program, reservation))
        .into_response())
}

/// Delete a recipe
///
/// Deletes the recipe permanently.
#[utoipa::path(
    delete, path = "/v1/recipes/{id}", tag = "Recipes", operation_id = "deleteRecipe",
    params(IdPath<RecipeId>),
    responses((status = 204, description = "The recipe is deleted"), Restricted, NoRecipe, Database),
)]
async fn delete(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<RecipeId>,
    _body: IgnoredBody,
) -> Result<StatusCode> {
    app.own_vault(SEALED)?;
    let mut tx = app.db.begin().await?;
    let known = recipes::delete(&mut tx, caller.account_id, path.id()?, &caller.actor).await?;
    tx.commit().await?;
    if known { Ok(StatusCode::NO_CONTENT) } else { Err(not_found::<RecipeId>()) }
}

/// Suggested label and description of a recipe
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "suggested_label": "Sign in at example.com",
    "suggested_description": "3 steps: opens example.com, types into textbox \"Password\", taps button \"Sign in\".",
    "intent_count": 3,
}))]
struct RecipeSuggestion {
    /// Suggested label, valid for a recipe
    suggested_label: String,
    /// Suggested description, valid for a recipe
    suggested_description: String,
    /// Number of steps that the recipe would have now
    intent_count: usize,
}

/// Suggest a recipe
///
/// Returns a label and a description for a recipe of the agent session in its current state. It creates nothing, and the same
/// steps always produce the same suggestion.
#[utoipa::path(
    get, path = "/v1/agent-sessions/{id}/recipe-suggestion", tag = "Recipes", operation_id = "suggestRecipe",
    params(IdPath<AgentSessionId>),
    responses((status = 200, description = "The suggestion", body = RecipeSuggestion), Restricted, NoAgentSession, Database),
)]
async fn suggestion(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
) -> Result<Answer<RecipeSuggestion>> {
    let (of, agents, limits) = (path.id()?, app.agents().await?, &app.config.limits);
    let mut tx = app.db.begin().await?;
    let stored = recipes::preview(&mut tx, caller.account_id, of, limits, &caller.actor).await?;
    drop(tx);
    let (bytes, sealer, limits) = (stored.weight(), agents.clone(), limits.clone());
    let suggestion = move || {
        let steps = stored.open(&sealer)?;
        let suggested = suggest(&steps, &limits);
        Ok(RecipeSuggestion {
            suggested_label: suggested.label,
            suggested_description: suggested.description,
            intent_count: steps.len(),
        })
    };
    let suggested: sqlx::Result<_> = app.readings.run(caller.account_id, bytes, suggestion).await?;
    Ok(Answer(suggested?))
}
