//! Second factors (contract: mfa).

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use kitfleet_domain::api_keys::Scope;
use kitfleet_domain::mfa::challenges::{self, Refused};
use kitfleet_domain::mfa::{self, Batch, Enrollment, GuessLimits, MfaError, NotVerified, Proof, Verdict};
use kitfleet_domain::sign_ins;
use kitfleet_domain::web_sessions;
use kitfleet_types::ids::AccountId;
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};
use utoipa_axum::routes;

use crate::http::auth::Caller;
use crate::http::client::ClientInfo;
use crate::http::error::{Problem, Result};
use crate::http::json::{IgnoredBody, Json, OpenUnchecked};
use crate::http::kinds;
use crate::http::openapi::{
    Body, Database, Enrolling, LoggingIn, NotEnrolled, RateLimited, Restricted, SteppingUp, named, one_of,
};
use crate::http::permissions::Rule;
use crate::http::rate_limits::Bucket;
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sign_ins::WebSession;

/// Feature name for errors about a missing encryption key.
const SECOND_FACTORS: &str = "second factors";

pub fn routes() -> Routes {
    Routes::new()
        .allow(Rule::scope(Scope::Read), routes!(status))
        .allow(Rule::person().after_step_up(), routes!(disable_by_delete))
        .allow(Rule::person(), routes!(enroll))
        .allow(Rule::person(), routes!(verify))
        .allow(Rule::person().after_step_up(), routes!(disable))
        .allow(Rule::person().after_step_up(), routes!(regenerate))
        .allow(Rule::person(), routes!(step_up))
        .public(routes!(challenge))
        .never_stored()
}

/// Status of the second factor
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "enrolled": true, "enrolled_at": "2026-11-01T09:30:00.000Z", "last_used_at": "2026-11-20T18:05:00.123Z",
    "unused_recovery_codes": 9,
}))]
struct MfaStatus {
    /// True when a second factor is enrolled
    enrolled: bool,
    /// Time the second factor was enrolled (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    enrolled_at: Option<Timestamp>,
    /// Time of the last successful proof (RFC 3339)
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    last_used_at: Option<Timestamp>,
    /// Number of unused recovery codes
    unused_recovery_codes: i64,
}

/// Get the status of the second factor
#[utoipa::path(
    get, path = "/v1/account/mfa", tag = "MFA", operation_id = "getMfaStatus",
    responses((status = 200, description = "The status", body = MfaStatus), Restricted, Database),
)]
async fn status(caller: Caller, State(app): State<App>) -> Result<Answer<MfaStatus>> {
    let status = mfa::status(&mut *app.db.acquire().await?, caller.account_id).await?;
    Ok(Answer(MfaStatus {
        enrolled: status.enrolled_at.is_some(),
        enrolled_at: status.enrolled_at,
        last_used_at: status.last_used_at,
        unused_recovery_codes: status.unused_recovery_codes,
    }))
}

/// Enrollment data for an authenticator app, returned only once
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "otpauth_uri": "otpauth://totp/Kitfleet:ada%40example.com?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Kitfleet\
                    &algorithm=SHA1&digits=6&period=30",
    "secret_base32": "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "algorithm": "SHA1", "digits": 6, "period_seconds": 30,
}))]
struct MfaEnrollment {
    /// Secret as a URI, to display as a QR code
    otpauth_uri: String,
    /// Secret as text, to type in
    secret_base32: String,
    /// Hash algorithm
    algorithm: &'static str,
    /// Number of digits of a code
    digits: u32,
    /// Validity period of a code in seconds
    period_seconds: u32,
}

impl From<Enrollment> for MfaEnrollment {
    fn from(enrollment: Enrollment) -> Self {
        Self {
            otpauth_uri: enrollment.otpauth_uri(),
            secret_base32: enrollment.secret_base32(),
            algorithm: "SHA1",
            digits: 6,
            period_seconds: 30,
        }
    }
}

/// Start enrolling a second factor
///
/// The second factor takes effect when a code is verified. Starting again replaces the secret.
#[utoipa::path(
    post, path = "/v1/account/mfa/enroll", tag = "MFA", operation_id = "enrollMfa",
    responses((status = 200, description = "The secret", body = MfaEnrollment), Restricted, Enrolling),
)]
async fn enroll(caller: Caller, State(app): State<App>, _body: IgnoredBody) -> Result<Answer<MfaEnrollment>> {
    let vault = app.own_vault(SECOND_FACTORS)?;
    let enrollment = mfa::enroll(&mut *app.db.acquire().await?, caller.account_id, vault).await?;
    Ok(Answer(enrollment.ok_or_else(already_enrolled)?.into()))
}

fn already_enrolled() -> Problem {
    Problem::new(&kinds::CONFLICT, "the account already has a second factor")
}

/// Request body of an enrollment verification
#[derive(Deserialize, ToSchema)]
#[schema(as = MfaCode, example = json!({"code": "287082"}))]
struct Code {
    /// Six-digit code of the authenticator app
    #[schema(pattern = "^[0-9]{6}$")]
    code: String,
}

/// Recovery codes, returned only once
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"recovery_codes": ["4T2ZK-9QX1M", "B7H3C-0WNPD"]}))]
struct RecoveryCodes {
    /// Ten recovery codes; each is valid once
    recovery_codes: Vec<String>,
}

/// Complete the enrollment
///
/// Takes a code of the authenticator app. A wrong code leaves the enrollment pending.
#[utoipa::path(
    post, path = "/v1/account/mfa/verify", tag = "MFA", operation_id = "verifyMfaEnrollment",
    request_body = Code,
    responses((status = 200, description = "The recovery codes", body = RecoveryCodes), Restricted, Body, Enrolling, RateLimited),
)]
async fn verify(
    caller: Caller,
    State(app): State<App>,
    client: ClientInfo,
    Json(body): Json<Code>,
) -> Result<Answer<RecoveryCodes>> {
    check_digits(&body.code)?;
    app.rate_limits.check(Bucket::Verify, &client).await?;
    let (account, vault, guesses) =
        (caller.account_id, app.own_vault(SECOND_FACTORS)?, GuessLimits::of(&app.config.limits));

    let mut tx = app.db.begin().await?;
    let verified = mfa::verify(&mut tx, account, &body.code, vault, guesses).await?;
    tx.commit().await?;
    let verified = verified?;
    // Hashing the recovery codes is slow, so they are generated only after a correct code.
    let batch = new_batch(&app).await?;
    let mut tx = app.begin_change(caller.account_id).await?;
    if !mfa::complete(&mut tx, account, &verified, &batch, &caller.actor).await? {
        return Err(NotVerified::Wrong.into());
    }
    tx.commit().await?;
    Ok(Answer(RecoveryCodes { recovery_codes: batch.shown() }))
}

fn check_digits(code: &str) -> Result<(), Invalid> {
    let digits = code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit());
    if digits { Ok(()) } else { Err(Invalid::field("code", "must be six digits")) }
}

async fn new_batch(app: &App) -> Result<Batch> {
    let codes = app.config.limits.recovery_codes;
    app.hashing.run(move || Batch::generate(codes)).await
}

impl From<NotVerified> for Problem {
    fn from(why: NotVerified) -> Self {
        match why {
            NotVerified::Wrong => Self::invalid("code", "is wrong, or no enrollment is pending"),
            NotVerified::TooMany(wait) => Self::rate_limited(wait.as_secs() + 1),
            NotVerified::Enrolled => already_enrolled(),
        }
    }
}

/// Request body of both routes that disable the second factor
#[derive(Deserialize, ToSchema)]
#[schema(as = DisableMfa, example = json!({"confirm": "disable-mfa"}))]
struct Disable {
    /// The literal `disable-mfa`
    #[schema(pattern = "^disable-mfa$")]
    confirm: String,
}

/// Disable the second factor
///
/// Requires a recent second-factor proof. Has no effect without a second factor.
#[utoipa::path(
    delete, path = "/v1/account/mfa", tag = "MFA", operation_id = "deleteMfa",
    request_body = Disable,
    responses((status = 204, description = "No second factor is enrolled"), Restricted, Body, SteppingUp, Database),
)]
async fn disable_by_delete(caller: Caller, State(app): State<App>, body: Result<Json<Disable>>) -> Result<StatusCode> {
    take_away(&app, &caller, body).await
}

/// Disable the second factor by POST
///
/// Same as `DELETE /v1/account/mfa`, for clients that cannot send a body with a DELETE request.
#[utoipa::path(
    post, path = "/v1/account/mfa/disable", tag = "MFA", operation_id = "disableMfa",
    request_body = Disable,
    responses((status = 204, description = "No second factor is enrolled"), Restricted, Body, SteppingUp, Database),
)]
async fn disable(caller: Caller, State(app): State<App>, body: Result<Json<Disable>>) -> Result<StatusCode> {
    take_away(&app, &caller, body).await
}

async fn take_away(app: &App, caller: &Caller, body: Result<Json<Disable>>) -> Result<StatusCode> {
    let enrolled = mfa::is_enrolled(&mut *app.db.acquire().await?, caller.account_id).await?;
    if enrolled {
        caller.require_step_up(app.config.auth.step_up_ttl)?;
    }
    let Json(body) = body?;
    if body.confirm != "disable-mfa" {
        return Err(Problem::invalid("confirm", "must be disable-mfa"));
    }
    let mut tx = app.db.begin().await?;
    if mfa::disable(&mut tx, caller.account_id, &caller.actor).await? && !enrolled {
        // A concurrent request enrolled the factor after the check above, so this caller has given no proof.
        return Err(Problem::step_up_required("never_satisfied"));
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replace the recovery codes
///
/// The previous recovery codes stop working. Requires a recent second-factor proof.
#[utoipa::path(
    post, path = "/v1/account/mfa/recovery-codes/regenerate", tag = "MFA", operation_id = "regenerateRecoveryCodes",
    responses((status = 200, description = "The new recovery codes", body = RecoveryCodes), Restricted, NotEnrolled, SteppingUp, Database),
)]
async fn regenerate(caller: Caller, State(app): State<App>, _body: IgnoredBody) -> Result<Answer<RecoveryCodes>> {
    let not_enrolled = || Problem::new(&kinds::NOT_FOUND, "the account has no second factor");
    if !mfa::is_enrolled(&mut *app.db.acquire().await?, caller.account_id).await? {
        return Err(not_enrolled());
    }
    caller.require_step_up(app.config.auth.step_up_ttl)?;
    let batch = new_batch(&app).await?;
    let mut tx = app.db.begin().await?;
    if !mfa::regenerate(&mut tx, caller.account_id, &batch).await? {
        return Err(not_enrolled());
    }
    tx.commit().await?;
    Ok(Answer(RecoveryCodes { recovery_codes: batch.shown() }))
}

/// Request body of a login challenge
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"challenge_token": "Yk1tD0s2c1p1cGVyc2VjcmV0LXRva2VuLW9mLTMyLWI", "code": "287082"}))]
struct ChallengeProof {
    /// Token of the login response
    challenge_token: String,
    /// Six-digit code of the authenticator app. Send either this or `recovery_code`
    #[schema(pattern = "^[0-9]{6}$")]
    code: Option<String>,
    /// Recovery code, with or without the hyphen. Send either this or `code`
    recovery_code: Option<String>,
}

impl ChallengeProof {
    fn given(&self) -> Result<SecondFactorInput<'_>, Invalid> {
        match (&self.code, &self.recovery_code) {
            (Some(code), None) => check_digits(code).map(|()| SecondFactorInput::Totp(code)),
            (None, Some(code)) => Ok(SecondFactorInput::Recovery { code, field: "recovery_code" }),
            _ => Err(Invalid::field("code", "send either code or recovery_code")),
        }
    }
}

/// Result of a login challenge
#[derive(Serialize, ToSchema)]
#[schema(as = ChallengeMet)]
struct ChallengeResult {
    /// The web session
    session: WebSession,
    /// Second factor that was used
    #[schema(schema_with = second_factor)]
    via: &'static str,
}

fn second_factor() -> RefOr<Schema> {
    named("SecondFactor", one_of(&["totp", "recovery"], None))
}

/// Complete a login challenge
///
/// Takes a code of the authenticator app or a recovery code, and must come from the IP address of the login. A wrong code does
/// not use up the challenge.
#[utoipa::path(
    post, path = "/v1/auth/mfa/challenge", tag = "Authentication", operation_id = "meetMfaChallenge",
    request_body = ChallengeProof,
    responses((status = 200, description = "Signed in", body = ChallengeResult), Body, LoggingIn, RateLimited, Database),
)]
async fn challenge(
    State(app): State<App>,
    client: ClientInfo,
    OpenUnchecked(body): OpenUnchecked<ChallengeProof>,
) -> Result<Answer<ChallengeResult>> {
    let body = body.check(|body| body.given().map(drop).map(|()| body))?;
    let given = body.given()?;
    app.rate_limits.check(Bucket::Challenge, &client).await?;
    let origin = client.origin();
    let guesses = app.config.limits.challenge_guesses;
    let find = async |tx: &mut sqlx::PgConnection| {
        challenges::find(tx, &body.challenge_token, &origin, guesses).await.map_err(Problem::from)
    };

    let mut tx = app.db.begin().await?;
    let account = find(&mut tx).await?.account;
    drop(tx);
    let presented = given.present(&app, account).await?;
    let mut tx = app.db.begin().await?;
    let found = find(&mut tx).await?;
    let actor = kitfleet_domain::audit::Actor::person(account, &origin);
    let verdict =
        mfa::check_proof(&mut tx, account, presented.proof(&app)?, GuessLimits::of(&app.config.limits), &actor).await?;
    let Verdict::Proven(via) = verdict else {
        if verdict == Verdict::Wrong {
            challenges::count_wrong_guess(&mut tx, found.id).await?;
        }
        tx.commit().await?;
        return Err(given.refusal(verdict));
    };
    challenges::consume(&mut tx, found.id).await?;
    let session = sign_ins::prove(&mut tx, account, via, &origin, app.config.auth.lifetimes.session).await?;
    tx.commit().await?;
    Ok(Answer(ChallengeResult { session: session.into(), via: via.name() }))
}

/// A second factor as the person typed it.
#[derive(Clone, Copy)]
enum SecondFactorInput<'a> {
    Totp(&'a str),
    Recovery { code: &'a str, field: &'static str },
}

/// A second factor that is ready to be verified; a recovery code is hashed.
enum Presented<'a> {
    Totp(&'a str),
    Recovery(Vec<u8>),
}

impl<'a> SecondFactorInput<'a> {
    /// Interprets a text that is either a six-digit code or a recovery code.
    fn either(code: &'a str) -> Self {
        if check_digits(code).is_ok() { Self::Totp(code) } else { Self::Recovery { code, field: "code" } }
    }

    async fn present(self, app: &App, account: AccountId) -> Result<Presented<'a>> {
        let code = match self {
            Self::Totp(code) => return Ok(Presented::Totp(code)),
            Self::Recovery { code, .. } => code.to_owned(),
        };
        let salt = mfa::recovery_salt(&mut *app.db.acquire().await?, account).await?;
        let salt = salt.ok_or_else(|| self.refusal(Verdict::NotEnrolled))?;
        Ok(Presented::Recovery(app.hashing.run(move || mfa::hash_recovery_code(&code, &salt)).await?))
    }

    fn refusal(self, verdict: Verdict) -> Problem {
        let field = match self {
            Self::Totp(_) => "code",
            Self::Recovery { field, .. } => field,
        };
        match verdict {
            Verdict::Wrong | Verdict::Proven(_) => Problem::invalid(field, "is wrong"),
            Verdict::UsedBefore => Problem::invalid(field, "was already used; wait for the next code"),
            Verdict::NotEnrolled => Problem::invalid(field, "is wrong: the account has no second factor"),
            Verdict::TooMany(wait) => Problem::rate_limited(wait.as_secs() + 1),
        }
    }
}

impl Presented<'_> {
    fn proof<'b>(&'b self, app: &'b App) -> Result<Proof<'b>> {
        Ok(match self {
            Self::Totp(code) => Proof::Totp { code, vault: app.own_vault(SECOND_FACTORS)? },
            Self::Recovery(hash) => Proof::Recovery { hash },
        })
    }
}

/// Request body of a step-up
#[derive(Deserialize, ToSchema)]
#[schema(as = StepUpProof, example = json!({"code": "287082"}))]
struct AnyCode {
    /// Six-digit code of the authenticator app, or a recovery code
    code: String,
}

/// Result of a step-up
#[derive(Serialize, ToSchema)]
struct SteppedUp {
    /// Second factor that was used
    #[schema(schema_with = second_factor)]
    via: &'static str,
    /// Time of the proof (RFC 3339); it counts as recent for 15 minutes
    #[schema(value_type = String, format = DateTime)]
    mfa_satisfied_at: Timestamp,
}

/// Step up a web session
///
/// Proves the second factor again, for operations that require a recent proof. The web session keeps its token.
#[utoipa::path(
    post, path = "/v1/auth/mfa/step-up", tag = "Authentication", operation_id = "stepUpWebSession",
    request_body = AnyCode,
    responses((status = 200, description = "The proof is recorded", body = SteppedUp), Restricted, Body, RateLimited, Database),
)]
async fn step_up(
    caller: Caller,
    State(app): State<App>,
    client: ClientInfo,
    Json(body): Json<AnyCode>,
) -> Result<Answer<SteppedUp>> {
    app.rate_limits.check(Bucket::Challenge, &client).await?;
    let (account, session) = (caller.account_id, caller.web_session()?);
    let given = SecondFactorInput::either(&body.code);
    let presented = given.present(&app, account).await?;
    let mut tx = app.db.begin().await?;
    let guesses = GuessLimits::of(&app.config.limits);
    let verdict = mfa::check_proof(&mut tx, account, presented.proof(&app)?, guesses, &caller.actor).await?;
    let Verdict::Proven(via) = verdict else {
        tx.commit().await?;
        return Err(given.refusal(verdict));
    };
    let satisfied = web_sessions::satisfy_mfa(&mut tx, session).await?;
    // If the session was revoked, the rollback also leaves the code unused.
    let mfa_satisfied_at = satisfied.ok_or_else(|| Problem::unauthorized("the bearer token was revoked"))?;
    tx.commit().await?;
    Ok(Answer(SteppedUp { via: via.name(), mfa_satisfied_at }))
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Database(error) => error.into(),
            other => Self::invalid("challenge_token", other.to_string()),
        }
    }
}

impl From<MfaError> for Problem {
    fn from(error: MfaError) -> Self {
        match error {
            MfaError::Sealed(error) => {
                tracing::error!(%error, "second factor was sealed with another key: see mfa.retired_encryption_keys");
                Self::new(
                    &kinds::FEATURE_UNAVAILABLE,
                    "this deployment does not have the encryption key of the second factor",
                )
            }
            MfaError::Database(error) => error.into(),
        }
    }
}
