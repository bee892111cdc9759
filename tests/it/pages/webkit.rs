//! Pages in a browser, which runs in a session of the service itself.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kitfleet_domain::emails::Template;
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use totp_rs::Totp;

use crate::support::identity_provider::{self, IdentityProvider};
use crate::support::records::uuid_of;
use crate::support::{App, Client, eventually};
use crate::webkit::text;

const EMAIL: &str = "ada@example.com";
const PASSWORD: &str = "correct horse battery";
const STATE: &str = "a-nonce-of-the-desktop-app";
const USED_LINK: &str = "This link has expired or was already used. Request another one here.";
const UNKNOWN_CODE: &str = "No device is waiting for this code. Compare it with the code on your device, or start \
                            again there: a code is valid for only a few minutes.";

/// Contract: pages 2; sign-ins 4; devices 3, 5.
#[tokio::test]
async fn verification_link_signs_in_and_connects_a_device() {
    let person = Person::start().await;
    person.sign_up().await;
    let link = person.app.mail_to(EMAIL, Template::VerifyEmail).await.link().to_owned();
    for _ in 0..3 {
        let seen = reqwest::get(&link).await.expect("an answer");
        assert_eq!(seen.status(), 200, "a mail scanner can open the link");
    }
    person.open(&link).await;
    person.press("#link-form button").await;
    person.sees_step("arrived").await;
    assert_eq!(person.text_of("#who").await, format!("Signed in as {EMAIL}"));

    assert_eq!(person.text_of("#next").await, "Open the dashboard");
    let device = person.device(Some("Ada’s desk")).await;
    person.open(&format!("{}/activate", person.app.base_url)).await;
    person.sees_step("enter-code").await;
    person.fill("input[name=user_code]", "0000-0000").await;
    person.press("#code-form button").await;
    person.sees_alert(UNKNOWN_CODE).await;
    person.open(&format!("{}/activate", person.app.base_url)).await;
    person.sees_step("enter-code").await;
    person.fill("input[name=user_code]", &device.user_code.to_lowercase().replace('-', "")).await;
    person.press("#code-form button").await;
    person.sees_step("consent").await;
    assert_eq!(person.text_of("#device").await, "Ada’s desk");
    assert_eq!(person.text_of("#address").await, "127.0.0.1");
    assert_eq!(person.exchange(&device).await["status"], "pending", "opening the consent step binds nothing");
    person.press("#consent-form button.primary").await;
    person.sees_step("done").await;
    assert_eq!(person.text_of("#connected").await, "Ada’s desk");
    let bound = person.exchange(&device).await;
    assert_eq!(bound["status"], "bound");
    let app = Client::new(&person.app.base_url, bound["api_key"].as_str());
    assert_eq!(app.get("/v1/account/me").await.expect(200).body["email"], EMAIL);

    let device = person.device(None).await;
    person.open(&device.browser_url).await;
    person.sees_step("enter-code").await;
    person.press("#code-form button").await;
    person.sees_step("consent").await;
    assert_eq!(person.text_of("#device").await, "Unnamed device");
    person.press("#not-me").await;
    person.sees_step("refused").await;
    assert_eq!(person.exchange(&device).await["status"], "pending");

    person.open(&link).await;
    person.press("#link-form button").await;
    person.sees_step("trouble").await;
    person.sees_alert(USED_LINK).await;
    person.app.stop().await;
}

/// Contract: pages 4; identities 5, 8. It also returns to a page of the dashboard. If the address already has an account, the confirmation mail signs in.
#[tokio::test]
async fn sign_in_with_identity_provider_returns_to_the_device() {
    let mut provider = IdentityProvider::new();
    let app = provider.configure(App::webkit()).start().await;
    provider.start_for(&app, &identity_provider::person("ada", EMAIL));
    let person = Person::visit(app).await;
    let device = person.device(None).await;
    person.open(&device.browser_url).await;
    person.sees_step("sign-in").await;
    person.press("#sign-in a.button").await;
    person.sees_step("arrived").await;
    assert_eq!(person.text_of("#who").await, format!("Signed in as {EMAIL}"));
    person.press("#next").await;
    person.sees_step("enter-code").await;
    person.press("#code-form button").await;
    person.sees_step("consent").await;
    person.press("#consent-form button.primary").await;
    person.sees_step("done").await;
    let bound = person.exchange(&device).await;
    provider.stop();

    let me = Client::new(&person.app.base_url, bound["api_key"].as_str()).get("/v1/account/me").await.expect(200);
    let account = uuid_of(me.body["id"].as_str().expect("an id"));
    person.app.execute("delete from identities where account_id = $1", account).await;
    provider.start_for(&person.app, &identity_provider::person("ada", EMAIL));
    person.press("#sign-out").await;
    person.sees_step("sign-in").await;
    person.press("#sign-in a.button").await;
    person.sees_step("confirm").await;
    let link = person.app.mail_to(EMAIL, Template::ConfirmSignIn).await.link().to_owned();
    person.open(&link).await;
    person.press("#link-form button").await;
    person.sees_step("arrived").await;

    // The dashboard has the same sign-in, and is shown with the page where the person started.
    person.press("#sign-out").await;
    person.sees_step("sign-in").await;
    person.open(&format!("{}/app/usage", person.app.base_url)).await;
    person.wait_for_element("main a.button").await;
    person.press("main a.button").await;
    person.sees_step("arrived").await;
    person.press("#next").await;
    person.sees_text("#main h1", "Usage").await;

    provider.stop();
    person
        .open(&format!("{}/v1/auth/oauth/{}/callback?state=x&code=y", person.app.base_url, identity_provider::NAME))
        .await;
    person.sees_step("refused").await;
    person.app.stop().await;
}

/// Contract: pages 2, 5. The person is signed in with the invited address.
#[tokio::test]
async fn invitation_is_accepted_by_its_addressee_only() {
    let person = Person::start().await;
    person.verified().await;
    let owner = person.app.person(Tier::Free).await;
    let other = person.app.person(Tier::Free).await;
    let invite = json!({"email": EMAIL, "role": "member"});
    owner.client.post("/v1/team/invites", invite).await.expect(202);
    let link = person.app.mail_to(EMAIL, Template::TeamInvite).await.link().to_owned();
    assert_eq!(reqwest::get(&link).await.expect("an answer").status(), 200);

    person.open(&link).await;
    person.sign_in_as(&other.email).await;
    person.sees_step("invitation").await;
    person.press("#invitation-form button").await;
    person.sees_alert("The invitation was sent to another e-mail address than that of the account.").await;
    person.press("#sign-out").await;
    person.sees_message("You are signed out.").await;

    person.app.stranger().post("/v1/auth/magic-link/request", json!({"email": EMAIL})).await.expect(200);
    let magic_link = person.app.mail_to(EMAIL, Template::MagicLink).await.link().to_owned();
    person.open(&magic_link).await;
    person.press("#link-form button").await;
    person.sees_step("arrived").await;
    assert_eq!(person.text_of("#next").await, "See the invitation");
    person.press("#next").await;
    person.sees_step("invitation").await;
    person.press("#invitation-form button").await;
    person.sees_step("joined").await;
    eventually(Duration::from_secs(5), "the page names the owner", async || {
        (person.text_of("#owner").await == owner.email.as_str()).then_some(())
    })
    .await;
    let members = owner.client.get("/v1/team/members").await.expect(200).body;
    assert_eq!(members["data"][0]["member_email"], EMAIL);

    person.press("#sign-out").await;
    person.sign_in_as(&other.email).await;
    person.sees_step("ended").await;
    person.press("#sign-out").await;
    person.sign_in().await;
    person.sees_step("ended").await;

    person.open(&link).await;
    person.sees_step("invitation").await;
    person.press("#invitation-form button").await;
    person.sees_step("ended").await;
    person.app.stop().await;
}

/// Contract: pages 4. The activation page asks too.
#[tokio::test]
async fn sign_in_asks_for_the_second_factor() {
    let person = Person::start().await;
    let (totp, recovery_code) = person.enroll().await;
    let device = person.device(Some("Ada’s desk")).await;
    person.open(&device.browser_url).await;
    person.sees_step("sign-in").await;
    person.fill("input[name=email]", EMAIL).await;
    person.fill("input[name=password]", "wrong horse battery").await;
    person.press("#sign-in button.primary").await;
    person.sees_alert("The e-mail address or the password is wrong.").await;

    person.open(&device.browser_url).await;
    person.sign_in().await;
    person.wait_for_element("#sign-in input[name=code]").await;
    // The current code was used by the enrollment; the next one is already accepted.
    person.fill("input[name=code]", &totp.generate(now() + 30).to_string()).await;
    person.press("#sign-in button.primary").await;
    person.sees_step("enter-code").await;
    person.press("#code-form button").await;
    person.sees_step("consent").await;
    person.press("#consent-form button.primary").await;
    person.sees_step("done").await;
    assert_eq!(person.exchange(&device).await["status"], "bound");

    person.press("#sign-out").await;
    person.sees_message("You are signed out.").await;
    person.sign_in().await;
    person.wait_for_element("#sign-in input[name=code]").await;
    person.fill("input[name=code]", "12345").await;
    // The browser does not send a code without six digits.
    person.wait_for_element("input[name=code]:invalid").await;
    person.fill("input[name=code]", "6").await;
    person.press("#sign-in button.primary").await;
    person.sees_alert("It is wrong.").await;
    person.press_named("Use a recovery code").await;
    person.wait_for_element("#sign-in input[name=recovery_code]").await;
    person.fill("input[name=recovery_code]", &recovery_code.to_lowercase().replace('-', "")).await;
    person.press("#sign-in button.primary").await;
    person.sees_step("enter-code").await;
    person.app.stop().await;
}

/// Contract: pages 4; sign-ins 12. The link of the mail returns to the device.
#[tokio::test]
async fn forgotten_password_is_replaced() {
    let person = Person::start().await;
    person.verified().await;
    let device = person.device(Some("Ada’s desk")).await;
    person.open(&device.browser_url).await;
    person.sees_step("sign-in").await;
    person.fill("input[name=email]", EMAIL).await;
    person.press_named("Forgot the password?").await;
    person.press("#sign-in button.primary").await;
    let sent = format!("If {EMAIL} has an account, a link to choose a new password has been sent to it.");
    person.sees_text("#sign-in p[role=status]", &sent).await;

    let link = person.app.mail_to(EMAIL, Template::ResetPassword).await.link().to_owned();
    person.open(&link).await;
    person.fill("input[name=new_password]", "another horse battery").await;
    person.fill("input[name=repeated]", "another horse batterie").await;
    person.press("#link-form button").await;
    person.sees_alert("The passwords differ.").await;
    person.act(json!({"kind": "press", "key": "Backspace"})).await;
    person.act(json!({"kind": "press", "key": "Backspace"})).await;
    person.fill("input[name=repeated]", "y").await;
    person.press("#link-form button").await;
    person.sees_step("arrived").await;
    let login = json!({"email": EMAIL, "password": "another horse battery"});
    person.app.stranger().post("/v1/auth/login", login).await.expect(200);

    person.expire(&device).await;
    person.press("#next").await;
    person.sees_step("enter-code").await;
    person.press("#code-form button").await;
    person.sees_alert(UNKNOWN_CODE).await;
    person.app.stop().await;
}

/// Contract: sign-ins 5; pages 2.
#[tokio::test]
async fn removed_password_is_replaced_on_the_page_of_the_link() {
    let person = Person::start().await;
    person.sign_up().await;
    person.app.mail_to(EMAIL, Template::VerifyEmail).await;
    person.app.execute_all("update accounts set signup_network = '192.0.2.0/24'").await;
    person.app.stranger().post("/v1/auth/resend-verification", json!({"email": EMAIL})).await.expect(200);
    let link = person.app.mail_number(2, EMAIL, Template::VerifyEmail).await.link().to_owned();
    person.open(&link).await;
    person.press("#link-form button").await;
    person.sees_step("password-removed").await;
    person.fill("input[name=new_password]", "another horse battery").await;
    person.fill("input[name=repeated]", "another horse batterie").await;
    person.press("#password-form button.primary").await;
    person.sees_alert("The passwords differ.").await;
    person.act(json!({"kind": "press", "key": "Backspace"})).await;
    person.act(json!({"kind": "press", "key": "Backspace"})).await;
    person.fill("input[name=repeated]", "y").await;
    person.press("#password-form button.primary").await;
    person.sees_text("#arrived p", "Your password is set").await;
    let login = json!({"email": EMAIL, "password": "another horse battery"});
    person.app.stranger().post("/v1/auth/login", login).await.expect(200);

    let other = person.app.person(Tier::Free).await;
    person.press("#sign-out").await;
    person.sign_in_as(&other.email).await;
    person.sees_text("#arrived p", "You are signed in.").await;
    person.app.stop().await;
}

struct Person {
    app: App,
    /// Owns the browser session, unrelated to the person.
    client: Client,
    session: String,
}

/// Has started a device authorization.
struct Device {
    code: String,
    user_code: String,
    browser_url: String,
}

impl Person {
    async fn start() -> Self {
        let key = BASE64_STANDARD.encode([7; 32]);
        // One code is enough, because each takes time to hash.
        Self::visit(App::webkit().set("mfa.encryption_key", &key).set("limits.recovery_codes", "1").start().await).await
    }

    async fn visit(app: App) -> Self {
        let client = app.client().await;
        let session = client.session().await;
        Self { app, client, session }
    }

    async fn sign_up(&self) {
        let new = json!({"email": EMAIL, "password": PASSWORD, "name": "Ada"});
        self.app.stranger().post("/v1/auth/signup", new).await.expect(200);
    }

    /// It can log in. Returns the token of its first web session.
    async fn verified(&self) -> String {
        self.sign_up().await;
        let token = self.app.mail_to(EMAIL, Template::VerifyEmail).await.token;
        let verified = self.app.stranger().post("/v1/auth/verify-email", json!({"token": token})).await.expect(200);
        verified.body["session"]["token"].as_str().expect("a token").to_owned()
    }

    /// Returns the authenticator and a recovery code.
    async fn enroll(&self) -> (Totp, String) {
        let token = self.verified().await;
        let owner = Client::new(&self.app.base_url, Some(&token));
        let pending = owner.post("/v1/account/mfa/enroll", json!({})).await.expect(200).body;
        let totp = Totp::from_url(pending["otpauth_uri"].as_str().expect("an address")).expect("a secret");
        let code = totp.generate(now()).to_string();
        let codes = owner.post("/v1/account/mfa/verify", json!({"code": code})).await.expect(200).body;
        (totp, codes["recovery_codes"][0].as_str().expect("a code").to_owned())
    }

    async fn device(&self, label: Option<&str>) -> Device {
        let asking = json!({"state": STATE, "client_label": label});
        let answer = self.app.stranger().post("/v1/auth/cli-authorize/initiate", asking).await.expect(200).body;
        let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
        Device { code: text("code"), user_code: text("user_code"), browser_url: text("browser_url") }
    }

    async fn exchange(&self, device: &Device) -> Value {
        let coming = json!({"code": device.code, "state": STATE});
        self.app.stranger().post("/v1/auth/cli-authorize/exchange", coming).await.expect(200).body
    }

    async fn expire(&self, device: &Device) {
        let expired = sqlx::query("update device_authorizations set expires_at = now() where user_code = $1")
            .bind(device.user_code.replace('-', ""))
            .execute(&self.app.database.pool)
            .await
            .expect("an update");
        assert_eq!(expired.rows_affected(), 1);
    }

    async fn open(&self, address: &str) {
        self.client.navigate(&self.session, address).await;
    }

    async fn act(&self, action: Value) {
        // Other tests use the processors, too.
        self.client
            .operate(&self.session, "interact", json!({"action": action, "timeout_ms": 60_000}))
            .await
            .expect(200);
    }

    async fn fill(&self, selector: &str, text: &str) {
        self.act(json!({"kind": "type", "selector": selector, "text": text})).await;
    }

    async fn press(&self, selector: &str) {
        self.act(json!({"kind": "tap", "selector": selector})).await;
    }

    async fn press_named(&self, name: &str) {
        self.act(json!({"kind": "tap", "target": {"role": "button", "name": name}})).await;
    }

    async fn sign_in(&self) {
        self.sign_in_as(EMAIL).await;
    }

    async fn sign_in_as(&self, email: &str) {
        self.sees_step("sign-in").await;
        self.fill("input[name=email]", email).await;
        self.fill("input[name=password]", PASSWORD).await;
        self.act(json!({"kind": "press", "key": "Enter"})).await;
    }

    async fn sees_step(&self, step: &str) {
        self.wait_for_element(&format!("#{step}")).await;
    }

    async fn wait_for_element(&self, selector: &str) {
        let condition = json!({"kind": "selector", "selector": selector});
        let wait = json!({"condition": condition, "timeout_ms": 10_000, "on_timeout": "return"});
        let waited = self.client.operate(&self.session, "wait", wait).await.expect(200);
        assert_eq!(
            waited.body["matched"],
            true,
            "{selector} is not shown, but: {}",
            self.text_of("[role=alert]").await
        );
    }

    async fn text_of(&self, selector: &str) -> Value {
        text(&self.client, &self.session, selector).await
    }

    async fn sees_message(&self, words: &str) {
        self.sees_text("#message", words).await;
    }

    /// An error, which the ID of its request can follow.
    async fn sees_alert(&self, words: &str) {
        self.sees_text("[role=alert]", words).await;
    }

    async fn sees_text(&self, selector: &str, beginning: &str) {
        eventually(Duration::from_secs(10), beginning, async || {
            let text = self.text_of(selector).await;
            text.as_str().is_some_and(|text| text.trim().starts_with(beginning)).then_some(())
        })
        .await;
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}
