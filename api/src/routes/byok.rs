//! What customers let models do for them: keys of their own at model providers, and consent to the deployment's (contract: byok).

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::byok::{self, Provider, ProviderKey, TestOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{Json, Unused};
use crate::http::kinds;
use crate::http::metrics::{ByokTest, count_byok_test};
use crate::http::openapi::{Body, Database, NoProviderKey, RateLimited, Restricted, Sealing, named, one_of};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// How long a test waits for others, of which a process has few at once.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(anthropic::set, anthropic::remove))
        .allow(OWN_ACCOUNT, routes!(anthropic::test))
        .allow(OWN_ACCOUNT, routes!(openai::set, openai::remove))
        .allow(OWN_ACCOUNT, routes!(openai::test))
        .allow(OWN_ACCOUNT, routes!(set_consent))
}

/// Body of a key's setting
#[derive(Deserialize, ToSchema)]
#[schema(as = SetProviderKey, example = json!({"key": "sk-ant-api03-R2D2-example-of-a-key"}))]
struct NewKey {
    /// As the provider shows it; it is never shown again
    #[schema(min_length = 8, max_length = 512, pattern = "^\\s*[!-~]+\\s*$")]
    key: String,
}

/// What a provider says of a key
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"outcome": "ok"}))]
struct ProviderKeyTest {
    /// `invalid`: it does not take it; `quota_exceeded`: nobody has paid for it, or not for so much; `unknown`: it said nothing
    /// that would tell
    #[schema(schema_with = outcome)]
    outcome: &'static str,
}

fn outcome() -> RefOr<Schema> {
    named("ProviderKeyTestOutcome", one_of(TestOutcome::NAMES, None))
}

/// The three routes of a provider's key.
macro_rules! provider {
    ($module:ident, $provider:expr, $path:literal, set $set:literal $what_set:literal, remove $remove:literal $what_remove:literal,
     test $test_path:literal $test:literal $what_test:literal) => {
        mod $module {
            use super::*;

            #[utoipa::path(
                put, path = $path, tag = "Account", operation_id = $set, summary = $what_set,
                description = "Instead of the one before. Agent sessions then ask that provider's model, which the key's owner pays for.",
                request_body = NewKey,
                responses((status = 204, description = "It is kept"), Restricted, Body, Sealing),
            )]
            pub async fn set(caller: Caller, State(app): State<App>, Json(body): Json<NewKey>) -> Result<StatusCode> {
                set_key(&app, &caller, $provider, &body).await
            }

            #[utoipa::path(
                delete, path = $path, tag = "Account", operation_id = $remove, summary = $what_remove,
                description = "Also when there is none.",
                responses((status = 204, description = "There is none any more"), Restricted, Database),
            )]
            pub async fn remove(caller: Caller, State(app): State<App>, _body: Unused) -> Result<StatusCode> {
                clear_key(&app, &caller, $provider).await
            }

            #[utoipa::path(
                post, path = $test_path, tag = "Account", operation_id = $test, summary = $what_test,
                description = "Asks the provider for as little as it sells, which the key's owner pays for.",
                responses((status = 200, description = "What the provider says of it", body = ProviderKeyTest), Restricted,
                          NoProviderKey, RateLimited, Sealing),
            )]
            pub async fn test(caller: Caller, State(app): State<App>, _body: Unused) -> Result<Answer<ProviderKeyTest>> {
                test_key(&app, &caller, $provider).await
            }
        }
    };
}

provider!(
    anthropic,
    Provider::Anthropic,
    "/v1/account/me/byok-anthropic-key",
    set "setAnthropicKey" "Keep a key at Anthropic",
    remove "removeAnthropicKey" "Forget the key at Anthropic",
    test "/v1/account/me/byok-anthropic-key/test" "testAnthropicKey" "Test the key at Anthropic"
);
provider!(
    openai,
    Provider::Openai,
    "/v1/account/me/byok-openai-key",
    set "setOpenaiKey" "Keep a key at OpenAI",
    remove "removeOpenaiKey" "Forget the key at OpenAI",
    test "/v1/account/me/byok-openai-key/test" "testOpenaiKey" "Test the key at OpenAI"
);

async fn set_key(app: &App, caller: &Caller, provider: Provider, body: &NewKey) -> Result<StatusCode> {
    let key = ProviderKey::parse(&body.key)?;
    let vault = app.own_vault("keys of model providers")?;
    let mut tx = app.begin_change(caller.account_id).await?;
    if !byok::set_key(&mut tx, caller.account_id, &caller.actor, provider, &key, vault).await? {
        return Err(Problem::account_gone());
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn clear_key(app: &App, caller: &Caller, provider: Provider) -> Result<StatusCode> {
    let mut tx = app.db.begin().await?;
    byok::clear_key(&mut tx, caller.account_id, &caller.actor, provider).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn test_key(app: &App, caller: &Caller, provider: Provider) -> Result<Answer<ProviderKeyTest>> {
    let account = caller.account_id;
    app.rate_limits.check(Bucket::ByokTest, account.to_string().as_str()).await?;
    let sealed = byok::find_key(&mut *app.db.acquire().await?, account, provider).await?;
    let Some(sealed) = sealed else {
        count_byok_test(ByokTest::NotSet);
        let detail = format!("the account keeps no key at {}", provider.title());
        return Err(Problem::new(&kinds::NOT_FOUND, detail));
    };
    let key = sealed.open(app.own_vault("keys of model providers")?).map_err(|error| {
        tracing::error!(%error, "model provider key was sealed with another key: see mfa.retired_encryption_keys");
        Problem::new(
            &kinds::FEATURE_UNAVAILABLE,
            "this deployment lacks the key that the provider's key was sealed with",
        )
    })?;
    // Before the provider is asked, though the row is written after that. No connection to the database is held meanwhile.
    app.begin_change(account).await?.commit().await?;
    let turn = app.byok_tests.take(account, PATIENCE).await?;
    let outcome = app.models.test(provider, &key).await;
    drop(turn);
    count_byok_test(ByokTest::Done(outcome));
    let mut tx = app.db.begin().await?;
    byok::note_test(&mut tx, account, &caller.actor, provider, outcome).await?;
    tx.commit().await?;
    Ok(Answer(ProviderKeyTest { outcome: outcome.name() }))
}

/// Whether the deployment's own key may be used
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = BundledLlmConsent, example = json!({"consented": true}))]
struct Consent {
    /// Whether agent sessions of an account without a key of its own may ask the model that the deployment pays for
    consented: bool,
}

/// Consent to the deployment's model, or no more
///
/// Nobody has consented until they say so.
#[utoipa::path(
    put, path = "/v1/account/me/bundled-llm-consent", tag = "Account", operation_id = "setBundledLlmConsent",
    request_body = Consent,
    responses((status = 200, description = "The consent, as it is now", body = Consent), Restricted, Body, Database),
)]
async fn set_consent(caller: Caller, State(app): State<App>, Json(consent): Json<Consent>) -> Result<Answer<Consent>> {
    // A consent can be withdrawn however many changes there were.
    let account = caller.account_id;
    let mut tx = if consent.consented { app.begin_change(account).await? } else { app.db.begin().await? };
    if !byok::set_consent(&mut tx, caller.account_id, &caller.actor, consent.consented).await? {
        return Err(Problem::account_gone());
    }
    tx.commit().await?;
    Ok(Answer(consent))
}
