//! Users with an email address, a password, a web session and, in some tests, an authenticator app.

use std::sync::LazyLock;
use std::time::Duration;

use kitfleet_domain::accounts::NewAccount;
use kitfleet_domain::audit::Origin;
use kitfleet_domain::emails::Template;
use kitfleet_domain::passwords::NewPassword;
use kitfleet_domain::sign_ups;
use kitfleet_domain::web_sessions;
use kitfleet_types::ids::AccountId;
use kitfleet_types::limits::Limits;
use kitfleet_types::tiers::Tier;
use serde_json::json;
use totp_rs::Totp;
use uuid::Uuid;

use super::app::Builder;
use super::client::{Answer, Client};
use super::records::AuditRow;
use super::{App, members};

pub const PASSWORD: &str = "correct horse battery";

/// For second factors: 32 bytes in base64.
pub const ENCRYPTION_KEY: &str = "S2l0ZmxlZXQga2VlcHMgc2Vjb25kIGZhY3RvcnMuLi4=";

static PASSWORD_HASH: LazyLock<String> =
    LazyLock::new(|| NewPassword::parse(PASSWORD, "password", &Limits::default()).expect("a sound password").hash());

#[derive(Clone)]
pub struct Person {
    pub account: AccountId,
    pub email: String,
    pub client: Client,
}

/// With its recovery codes.
pub struct Authenticator {
    pub totp: Totp,
    pub recovery_codes: Vec<String>,
}

impl Authenticator {
    pub fn code(&self) -> String {
        self.totp.generate_current().to_string()
    }

    /// A six-digit code that is not valid now, nor shortly before or after.
    pub fn wrong_code(&self) -> String {
        let sound = |code: &String| self.totp.check_current(code).is_none();
        (0..9).map(|n| format!("{:06}", 111_111 * n)).find(sound).expect("most codes are wrong")
    }
}

impl Person {
    pub fn token(&self) -> &str {
        self.client.key.as_deref().expect("they are signed in")
    }
}

impl Builder {
    /// There are few recovery codes, because these take long to hash.
    pub fn with_second_factors(self) -> Self {
        self.set("mfa.encryption_key", ENCRYPTION_KEY).set("limits.recovery_codes", "2")
    }
}

impl App {
    /// Without a second factor.
    pub async fn person(&self, tier: Tier) -> Person {
        let email = format!("{}@example.com", Uuid::now_v7().simple());
        let password_hash = Some(PASSWORD_HASH.clone());
        let new = NewAccount {
            email: email.clone(),
            name: "Ada".to_owned(),
            password_hash,
            tier,
            verified: true,
            signup_network: None,
        };
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let account = sign_ups::create(&mut conn, new).await.expect("a new account");
        drop(conn);
        Person { account, email, client: self.device_of(account).await }
    }

    /// Another web session, without a second-factor proof.
    pub async fn device_of(&self, account: AccountId) -> Client {
        let mut conn = self.database.pool.acquire().await.expect("a connection");
        let origin = Origin { ip_address: Some("127.0.0.1".to_owned()), user_agent: None };
        let begun = web_sessions::begin(&mut conn, account, &origin, Duration::from_hours(1), false).await;
        Client::new(&self.base_url, Some(begun.expect("a web session").token.reveal()))
    }

    /// Enrolls a second factor. The web session has no second-factor proof afterwards.
    pub async fn enroll(&self, person: &Person) -> Authenticator {
        let enrollment = person.client.post("/v1/account/mfa/enroll", json!({})).await.expect(200).body;
        let uri = enrollment["otpauth_uri"].as_str().expect("a URI");
        let totp = Totp::from_url(uri).expect("authenticator apps read it");
        let code = totp.generate_current().to_string();
        let verified = person.client.post("/v1/account/mfa/verify", json!({"code": code})).await.expect(200);
        Authenticator { totp, recovery_codes: recovery_codes(&verified) }
    }

    /// Deletes the record of used codes.
    pub async fn fresh_code(&self, person: &Person, authenticator: &Authenticator) -> String {
        sqlx::query("delete from totp_steps where account_id = $1")
            .bind(person.account.as_uuid())
            .execute(&self.database.pool)
            .await
            .expect("a statement");
        authenticator.code()
    }

    pub async fn prove(&self, person: &Person) {
        let proven = "update web_sessions set mfa_satisfied_at = now() where account_id = $1";
        self.execute(proven, person.account.as_uuid()).await;
    }

    pub async fn join_team(&self, owner: AccountId, member: AccountId, role: &str) {
        sqlx::query(
            "insert into team_members (id, owner_account_id, member_account_id, role, invited_by_account_id, invited_at)
             values ($1, $2, $3, $4, $2, now())",
        )
        .bind(Uuid::now_v7())
        .bind(owner.as_uuid())
        .bind(member.as_uuid())
        .bind(role)
        .execute(&self.database.pool)
        .await
        .expect("a membership");
    }

    /// Over HTTP, with the mailed link. Returns the login result.
    pub async fn sign_up(&self, email: &str) -> Answer {
        let stranger = self.stranger();
        let body = json!({"email": email, "password": PASSWORD, "name": "Ada"});
        stranger.post("/v1/auth/signup", body).await.expect(200);
        let token = self.mail_to(email, Template::VerifyEmail).await.token;
        stranger.post("/v1/auth/verify-email", json!({"token": token})).await.expect(200)
    }

    pub async fn audited(&self, account: AccountId, action: &str) -> Vec<AuditRow> {
        self.audit(account).await.into_iter().filter(|row| row.action == action).collect()
    }

    pub async fn log_in(&self, email: &str, password: &str) -> Answer {
        self.stranger().post("/v1/auth/login", json!({"email": email, "password": password})).await
    }

    pub fn signed_in(&self, result: &Answer) -> Client {
        assert_eq!(result.status, 200, "{}", result.body);
        Client::new(&self.base_url, Some(token_of(result)))
    }
}

pub fn token_of(answer: &Answer) -> &str {
    answer.body["session"]["token"].as_str().unwrap_or_else(|| panic!("no session: {}", answer.body))
}

pub fn challenge_of(result: &Answer) -> &str {
    assert_eq!(result.status, 200, "{}", result.body);
    let expected = ["challenge_expires_at", "challenge_token", "mfa_required"];
    assert_eq!(members(&result.body).into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(result.body["mfa_required"], true, "clients branch on the literal");
    result.body["challenge_token"].as_str().expect("a token")
}

pub fn recovery_codes(answer: &Answer) -> Vec<String> {
    let codes = answer.body["recovery_codes"].as_array().unwrap_or_else(|| panic!("no codes: {}", answer.body));
    codes.iter().map(|code| code.as_str().expect("a code").to_owned()).collect()
}
