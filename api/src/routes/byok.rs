//! Customers' own model provider keys, and consent to the deployment's key (contract: byok).

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::account_share;
use kitfleet_domain::byok::{self, Provider, ProviderKey, TestOutcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json};
use crate::http::kinds;
use crate::http::metrics::{ByokTest, count_byok_test};
use crate::http::openapi::{Body, Database, NoProviderKey, RateLimited, Restricted, Sealing, named, one_of};
use crate::http::permissions::OWN_ACCOUNT;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;

/// Maximum time a test waits for other tests; a process runs few at once.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn routes() -> Routes {
    Routes::new()
        .allow(OWN_ACCOUNT, routes!(anthropic::set, anthropic::remove))
        .allow(OWN_ACCOUNT, routes!(anthropic::test))
        .allow(OWN_ACCOUNT, routes!(openai::set, openai::remove))
        .allow(OWN_ACCOUNT, routes!(openai::test))
        .allow(OWN_ACCOUNT, routes!(set_consent))
}

/// Request body that sets a provider key
#[derive(Deserialize, ToSchema)]
#[schema(as = SetProviderKey, example = json!({"key": "sk-ant-api03-R2D2-example-of-a-key"}))]
struct NewKey {
    /// The provider's API key. No response returns it
    #[schema(min_length = 8, max_length = 512, pattern = "^\\s*[!-~]+\\s*$")]
    key: String,
}

/// Result of a provider key test
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"outcome": "ok"}))]
struct ProviderKeyTest {
    /// Outcome of the test. `invalid`: the provider rejects the key. `quota_exceeded`: the provider account has no credit or
    /// quota left. `unknown`: the provider gave no conclusive answer
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
                description = "Replaces the previous key. Agent sessions then use that provider's model at the key owner's expense.",
                request_body = NewKey,
                responses((status = 204, description = "The key is stored"), Restricted, Body, Sealing),
            )]
            pub async fn set(caller: Caller, State(app): State<App>, Json(body): Json<NewKey>) -> Result<StatusCode> {
                set_key(&app, &caller, $provider, &body).await
            }

            #[utoipa::path(
                delete, path = $path, tag = "Account", operation_id = $remove, summary = $what_remove,
                description = "Succeeds when no key is stored.",
                responses((status = 204, description = "No key is stored"), Restricted, Database),
            )]
            pub async fn remove(caller: Caller, State(app): State<App>, _body: IgnoredBody) -> Result<StatusCode> {
                clear_key(&app, &caller, $provider).await
            }

            #[utoipa::path(
                post, path = $test_path, tag = "Account", operation_id = $test, summary = $what_test,
                description = "Sends the smallest possible request to the provider, at the key owner's expense.",
                responses((status = 200, description = "The test result", body = ProviderKeyTest), Restricted,
                          NoProviderKey, RateLimited, Sealing),
            )]
            pub async fn test(caller: Caller, State(app): State<App>, _body: IgnoredBody) -> Result<Answer<ProviderKeyTest>> {
                test_key(&app, &caller, $provider).await
            }
        }
    };
}

provider!(
    anthropic,
    Provider::Anthropic,
    "/v1/account/me/byok-anthropic-key",
    set "setAnthropicKey" "Set the Anthropic key",
    remove "removeAnthropicKey" "Remove the Anthropic key",
    test "/v1/account/me/byok-anthropic-key/test" "testAnthropicKey" "Test the Anthropic key"
);
provider!(
    openai,
    Provider::Openai,
    "/v1/account/me/byok-openai-key",
    set "setOpenaiKey" "Set the OpenAI key",
    remove "removeOpenaiKey" "Remove the OpenAI key",
    test "/v1/account/me/byok-openai-key/test" "testOpenaiKey" "Test the OpenAI key"
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
        let detail = format!("the account has no {} key", provider.title());
        return Err(Problem::new(&kinds::NOT_FOUND, detail));
    };
    let key = sealed.open(app.own_vault("keys of model providers")?).map_err(|error| {
        tracing::error!(%error, "model provider key was sealed with another key: see mfa.retired_encryption_keys");
        Problem::new(
            &kinds::FEATURE_UNAVAILABLE,
            "this deployment does not have the encryption key of the stored provider key",
        )
    })?;
    // The change limit is checked before the provider request, although the row is written after it. The request holds no
    // database connection.
    app.begin_change(account).await?.commit().await?;
    account_share::release();
    let turn = app.byok_tests.take(account, PATIENCE).await?;
    let outcome = app.models.test(provider, &key).await;
    drop(turn);
    count_byok_test(ByokTest::Done(outcome));
    let mut tx = app.db.begin().await?;
    byok::note_test(&mut tx, account, &caller.actor, provider, outcome).await?;
    tx.commit().await?;
    Ok(Answer(ProviderKeyTest { outcome: outcome.name() }))
}

/// Consent to the use of the deployment's model key
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = BundledLlmConsent, example = json!({"consented": true}))]
struct Consent {
    /// True when agent sessions may use the model that the deployment pays for. It applies to accounts without a provider key
    consented: bool,
}

/// Set the consent to the deployment's model
///
/// The default is no consent.
#[utoipa::path(
    put, path = "/v1/account/me/bundled-llm-consent", tag = "Account", operation_id = "setBundledLlmConsent",
    request_body = Consent,
    responses((status = 200, description = "The current consent", body = Consent), Restricted, Body, Database),
)]
async fn set_consent(caller: Caller, State(app): State<App>, Json(consent): Json<Consent>) -> Result<Answer<Consent>> {
    // Withdrawing consent is exempt from the limit on changes.
    let account = caller.account_id;
    let mut tx = if consent.consented { app.begin_change(account).await? } else { app.db.begin().await? };
    if !byok::set_consent(&mut tx, caller.account_id, &caller.actor, consent.consented).await? {
        return Err(Problem::account_gone());
    }
    tx.commit().await?;
    Ok(Answer(consent))
}
