//! OpenID Connect clients of the identity providers.
//!
//! Metadata is fetched on first use and refreshed after a while, so a provider that is down blocks neither the start nor, once
//! its metadata is known, sign-ins. Keys are also fetched again when a provider signs with an unknown key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kitfleet_domain::emails::EmailAddress;
use kitfleet_domain::identities::ReturnedSignIn;
use kitfleet_domain::tokens::Token;
use kitfleet_types::timestamp::Timestamp;
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreErrorResponseType, CoreIdToken, CoreIdTokenClaims,
    CoreProviderMetadata, CoreUserInfoClaims,
};
use openidconnect::{
    AccessToken, AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken, EndUserEmail,
    EndUserName, EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl, LocalizedClaim, Nonce,
    OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    SignatureVerificationError, SubjectIdentifier, TokenResponse as _,
};
use tokio::sync::Mutex;
use url::Url;

use crate::http::error::{Problem, Result};

const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const CACHED_FOR: Duration = Duration::from_hours(1);
/// Pause after a provider did not respond.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Not `Debug`, because it holds a secret.
#[derive(Clone)]
pub struct ProviderConfig {
    /// Exactly as the provider spells it.
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    pub scopes: Vec<String>,
    pub display_name: String,
}

pub struct Providers(BTreeMap<String, Provider>);

impl Providers {
    pub fn new(configs: &BTreeMap<String, ProviderConfig>, base_url: &str) -> Self {
        let provider = |(name, config): (&String, &ProviderConfig)| {
            let redirect_uri = format!("{base_url}/v1/auth/oauth/{name}/callback");
            let provider =
                Provider { name: name.clone(), config: config.clone(), redirect_uri, memory: Mutex::default() };
            (name.clone(), provider)
        };
        Self(configs.iter().map(provider).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.0.values()
    }

    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.0.get(name)
    }
}

pub struct Provider {
    pub name: String,
    pub config: ProviderConfig,
    redirect_uri: String,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    known: Option<Arc<ProviderMetadata>>,
    failed_at: Option<Instant>,
}

struct ProviderMetadata {
    client: Client,
    http: reqwest::Client,
    since: Instant,
}

type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

pub struct ProviderRedirect {
    pub url: Url,
    pub nonce: Nonce,
    pub pkce_verifier: PkceCodeVerifier,
}

pub struct ProviderIdentity {
    /// Permanent.
    pub subject: String,
    /// Set if the provider has verified one.
    pub email: Option<EmailAddress>,
    pub name: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    /// Also an unexpected response, or a rejection of the client.
    #[error("{0}")]
    Provider(String),
    #[error("the provider rejected the code")]
    Code,
    /// For this client or this sign-in.
    #[error("the ID token is invalid: {0}")]
    Token(#[from] ClaimsVerificationError),
}

impl Failure {
    /// An error that the caller did not cause.
    fn provider(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Provider(text)
    }
}

impl Provider {
    /// URL to redirect the browser to; the browser returns with `state`.
    pub async fn departure(&self, state: &Token) -> Result<ProviderRedirect> {
        let known = self.known().await.map_err(|failure| self.problem(&failure))?;
        let (challenge, pkce_verifier) = PkceCodeChallenge::new_random_sha256();
        let state = CsrfToken::new(state.reveal().to_owned());
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = known.client.authorize_url(flow, move || state.clone(), Nonce::new_random);
        // This scope is always requested.
        let scopes = self.config.scopes.iter().filter(|scope| *scope != "openid").cloned().map(Scope::new);
        let (url, _, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        Ok(ProviderRedirect { url, nonce, pkce_verifier })
    }

    pub async fn arrival(&self, code: &str, returned: ReturnedSignIn) -> Result<ProviderIdentity> {
        self.person(code, returned).await.map_err(|failure| self.problem(&failure))
    }

    /// The log has the cause.
    fn problem(&self, failure: &Failure) -> Problem {
        tracing::warn!(provider = self.name, error = %failure, "sign-in through an identity provider failed");
        match failure {
            Failure::Provider(_) => Problem::unavailable_for_now("the identity provider is temporarily unavailable"),
            Failure::Code => Problem::invalid("code", "was rejected by the identity provider; start again"),
            Failure::Token(_) => {
                Problem::invalid("code", "led to an invalid answer of the identity provider; start again")
            }
        }
    }

    async fn person(&self, code: &str, returned: ReturnedSignIn) -> Result<ProviderIdentity, Failure> {
        let ReturnedSignIn { nonce, pkce_verifier, now } = returned;
        let known = self.known().await?;
        let exchange = known.client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let exchange = exchange.map_err(|error| Failure::provider(&error))?;
        let exchange = exchange.set_pkce_verifier(PkceCodeVerifier::new(pkce_verifier));
        let tokens = exchange.request_async(&known.http).await.map_err(|error| match error {
            RequestTokenError::ServerResponse(refusal) if *refusal.error() == CoreErrorResponseType::InvalidGrant => {
                Failure::Code
            }
            other => Failure::provider(&other),
        })?;
        let token = tokens.id_token().ok_or_else(|| Failure::Provider("it returned no ID token".to_owned()))?;
        let nonce = Nonce::new(nonce);
        let claims = match known.verify(token, &nonce, now) {
            Err(ClaimsVerificationError::SignatureVerification(SignatureVerificationError::NoMatchingKey)) => {
                self.newer_metadata(&known).await?.verify(token, &nonce, now)?
            }
            verified => verified?,
        };
        let subject = claims.subject();
        // A provider may return the person's data in the token, or only from the userinfo endpoint.
        if (claims.email().is_none() || claims.email_verified().is_none())
            && let Some(profile) = known.ask(tokens.access_token(), subject).await?
        {
            return Ok(ProviderIdentity::new(subject, profile.email(), profile.email_verified(), profile.name()));
        }
        Ok(ProviderIdentity::new(subject, claims.email(), claims.email_verified(), claims.name()))
    }

    async fn known(&self) -> Result<Arc<ProviderMetadata>, Failure> {
        let mut memory = self.memory.lock().await;
        let is_fresh = memory.known.as_ref().is_some_and(|known| known.since.elapsed() < CACHED_FOR);
        let is_left_alone = memory.failed_at.is_some_and(|at| at.elapsed() < RETRY_PAUSE);
        if !is_fresh && !is_left_alone {
            match self.discover().await {
                Ok(known) => *memory = Memory { known: Some(Arc::new(known)), failed_at: None },
                Err(failure) => {
                    memory.failed_at = Some(Instant::now());
                    if memory.known.is_none() {
                        return Err(failure);
                    }
                    // Outdated metadata is better than none.
                    tracing::warn!(provider = self.name, error = %failure, "cannot fetch the discovery document of an identity provider");
                }
            }
        }
        memory.known.clone().ok_or_else(|| Failure::Provider("it did not respond a moment ago".to_owned()))
    }

    /// Newer than `known`.
    async fn newer_metadata(&self, known: &Arc<ProviderMetadata>) -> Result<Arc<ProviderMetadata>, Failure> {
        let mut memory = self.memory.lock().await;
        if memory.known.as_ref().is_some_and(|current| Arc::ptr_eq(current, known)) {
            *memory = Memory::default();
        }
        drop(memory);
        self.known().await
    }

    async fn discover(&self) -> Result<ProviderMetadata, Failure> {
        // Redirects could lead to any server. Sign-ins are rare, so the provider often closes an idle connection when it is
        // about to be reused.
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .timeout(ANSWER_WITHIN)
            .no_proxy()
            .build()
            .map_err(|error| Failure::provider(&error))?;
        let issuer = IssuerUrl::new(self.config.issuer.clone()).map_err(|error| Failure::provider(&error))?;
        let redirect_uri = RedirectUrl::new(self.redirect_uri.clone()).map_err(|error| Failure::provider(&error))?;
        let metadata = CoreProviderMetadata::discover_async(issuer, &http).await;
        let metadata = metadata.map_err(|error| Failure::provider(&error))?;
        let methods = metadata.token_endpoint_auth_methods_supported();
        let by_header = methods.is_none_or(|methods| methods.contains(&CoreClientAuthMethod::ClientSecretBasic));
        let secret = self.config.client_secret.clone().map(ClientSecret::new);
        let client_id = ClientId::new(self.config.client_id.clone());
        let client = CoreClient::from_provider_metadata(metadata, client_id, secret)
            .set_redirect_uri(redirect_uri)
            .set_auth_type(if by_header { AuthType::BasicAuth } else { AuthType::RequestBody });
        Ok(ProviderMetadata { client, http, since: Instant::now() })
    }
}

impl ProviderMetadata {
    /// Signature, issuer, audience, nonce and time are checked.
    fn verify<'a>(
        &self,
        token: &'a CoreIdToken,
        nonce: &Nonce,
        Timestamp(now): Timestamp,
    ) -> Result<&'a CoreIdTokenClaims, ClaimsVerificationError> {
        token.claims(&self.client.id_token_verifier().set_time_fn(move || now), nonce)
    }

    /// `None` without a userinfo endpoint.
    async fn ask(
        &self,
        token: &AccessToken,
        subject: &SubjectIdentifier,
    ) -> Result<Option<CoreUserInfoClaims>, Failure> {
        let Ok(request) = self.client.user_info(token.clone(), Some(subject.clone())) else { return Ok(None) };
        request.request_async(&self.http).await.map(Some).map_err(|error| Failure::provider(&error))
    }
}

impl ProviderIdentity {
    fn new(
        subject: &SubjectIdentifier,
        email: Option<&EndUserEmail>,
        email_verified: Option<bool>,
        name: Option<&LocalizedClaim<EndUserName>>,
    ) -> Self {
        let verified = email.filter(|_| email_verified == Some(true));
        Self {
            subject: subject.to_string(),
            email: verified.and_then(|email| EmailAddress::parse(email).ok()),
            name: name.and_then(|name| name.get(None)).map(|name| name.to_string()),
        }
    }
}
