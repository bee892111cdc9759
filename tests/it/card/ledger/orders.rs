use std::collections::BTreeMap;
use std::time::Duration;

use kitfleet_domain::audit::Origin;
use kitfleet_domain::web_sessions;
use kitfleet_types::ids::AccountId;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value, json};
use sqlx::PgPool;
use tokio::time::sleep;
use uuid::Uuid;

use super::{Client, Message, Proof, Record, Shop};
use crate::support::crypto_processor::{hmac, notice, sorted};
use crate::support::sink::{Received, Sink};
use crate::support::{Answer, App, eventually};

const CHECKOUT: &str = "/v1/billing/crypto-checkout";
const WAITING: [&str; 4] = ["waiting", "confirming", "sending", "partially_paid"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PaymentScenario {
    Paid,
    /// Underpaid, then completed by the same payment.
    ToppedUp,
    /// Underpaid, then paid in full by another payment.
    InParts,
    /// Underpaid by two payments, then completed by the second.
    BothShort,
    PaidTwice,
    OtherMoney,
    /// Staff settle it.
    Settled,
    Refused,
    /// After a partial payment.
    RefusedShort,
    /// Paid, then refunded.
    GivenBack,
    Expired,
    /// Staff expire it while it is being paid.
    ExpiredLate,
    /// Staff expire it while it is being paid, and settle it.
    Disputed,
    Swept,
    /// After a partial payment.
    SweptShort,
    /// A sweep finds the payment.
    FoundPaid,
    /// A sweep fails it while it is being paid.
    SweptLate,
}

const PAYMENT_SCENARIOS: [PaymentScenario; 17] = [
    PaymentScenario::Paid,
    PaymentScenario::ToppedUp,
    PaymentScenario::InParts,
    PaymentScenario::BothShort,
    PaymentScenario::PaidTwice,
    PaymentScenario::OtherMoney,
    PaymentScenario::Settled,
    PaymentScenario::Refused,
    PaymentScenario::RefusedShort,
    PaymentScenario::GivenBack,
    PaymentScenario::Expired,
    PaymentScenario::ExpiredLate,
    PaymentScenario::Disputed,
    PaymentScenario::Swept,
    PaymentScenario::SweptShort,
    PaymentScenario::FoundPaid,
    PaymentScenario::SweptLate,
];

/// Status, reason of failure, and whether it is flagged for staff.
type End = (&'static str, Option<&'static str>, bool);

impl PaymentScenario {
    /// Two where events race.
    fn ends(self) -> &'static [End] {
        match self {
            Self::Paid | Self::ToppedUp | Self::Settled | Self::FoundPaid => &[("paid", None, false)],
            Self::InParts | Self::BothShort | Self::PaidTwice => &[("paid", None, true)],
            Self::OtherMoney => &[("pending", None, true)],
            Self::Refused => &[("failed", Some("ipn"), false)],
            Self::RefusedShort => &[("failed", Some("ipn"), true)],
            Self::GivenBack => &[("paid", None, true), ("failed", Some("ipn"), true)],
            Self::Expired => &[("failed", Some("expired"), false)],
            Self::ExpiredLate | Self::Disputed => &[("paid", None, false), ("failed", Some("expired"), true)],
            Self::Swept => &[("failed", Some("swept"), false)],
            Self::SweptShort => &[("failed", Some("swept"), true)],
            Self::SweptLate => &[("paid", None, false), ("failed", Some("swept"), true)],
        }
    }

    /// Age of the order when its course begins.
    fn age(self) -> &'static str {
        match self {
            Self::Expired | Self::ExpiredLate | Self::Disputed => "61 minutes",
            Self::Swept | Self::SweptShort | Self::FoundPaid | Self::SweptLate => "9 days",
            _ => "0",
        }
    }

    /// Besides `waiting`: the status, and the members that differ from the order.
    fn notices(self, order: &Value) -> Vec<(&'static str, Value)> {
        let all = ("finished", json!({}));
        let less = ("finished", json!({"actually_paid": 0.001}));
        let other = ("finished", json!({"payment_id": payment(order) + 4_000_000_000_000}));
        match self {
            Self::Paid | Self::ExpiredLate | Self::Disputed | Self::SweptLate => vec![all],
            Self::ToppedUp => vec![less, all],
            Self::InParts => vec![less, other],
            Self::BothShort => {
                let mut less_of_other = other.clone();
                less_of_other.1["actually_paid"] = json!(0.001);
                vec![less, less_of_other, other]
            }
            Self::PaidTwice => vec![all, other],
            Self::OtherMoney | Self::Settled => vec![("finished", json!({"pay_currency": "doge"}))],
            Self::Refused => {
                vec![(["failed", "refunded", "expired"][order_number(order) % 3], json!({"actually_paid": 0}))]
            }
            Self::RefusedShort => {
                vec![(["failed", "expired"][order_number(order) % 2], json!({"actually_paid": 0.001}))]
            }
            Self::GivenBack => vec![all, ("refunded", json!({}))],
            Self::Expired | Self::Swept | Self::SweptShort | Self::FoundPaid => Vec::new(),
        }
    }

    fn staff_actions(self) -> &'static [&'static str] {
        match self {
            Self::Settled => &["settle"],
            Self::Expired | Self::ExpiredLate => &["expire"],
            Self::Disputed => &["expire", "settle"],
            _ => &[],
        }
    }
}

fn payment(order: &Value) -> i64 {
    order["payment_id"].as_str().and_then(|id| id.parse().ok()).expect("a number")
}

fn order_number(order: &Value) -> usize {
    usize::try_from(payment(order)).expect("a number")
}

fn id_of(order: &Value) -> Uuid {
    order["id"].as_str().and_then(|id| id.strip_prefix("ord_")).and_then(|id| id.parse().ok()).expect("an id")
}

/// The processor's script signs each array as an object.
fn without_arrays(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let named = items.iter().enumerate().map(|(number, item)| (number.to_string(), without_arrays(item)));
            Value::Object(named.collect::<Map<_, _>>())
        }
        Value::Object(members) => {
            let named = members.iter().map(|(name, item)| (name.clone(), without_arrays(item)));
            Value::Object(named.collect::<Map<_, _>>())
        }
        scalar => scalar.clone(),
    }
}

/// Over one of the two forms.
fn signed_notice(mut notice: Value, chance: &mut StdRng) -> Message {
    notice["payin_extra"] = json!([{"zß": 1.5, "a": "é"}, [2, "x"]]);
    let signed = if chance.random() { sorted(&notice) } else { sorted(&without_arrays(&notice)) };
    let path = "/v1/billing/crypto-webhook".to_owned();
    Message { path, body: notice.to_string(), proof: Proof::Crypto(hmac(&signed)) }
}

pub struct Buyer {
    account: AccountId,
    client: Client,
    orders: Vec<PurchasedOrder>,
}

struct PurchasedOrder {
    key: String,
    order: Value,
    scenario: PaymentScenario,
}

impl Shop {
    /// One or two orders, one after the other, each to its final state.
    pub async fn buy(&self, account: AccountId, record: &mut Record, chance: &mut StdRng) {
        let client = self.sign_in(account).await;
        self.listen(&client, account).await;
        let mut buyer = Buyer { account, client, orders: Vec::new() };
        let subscribed = record.tier.clone();
        for number in 0..chance.random_range(1..=2) {
            let product = ["api_starter", "api_builder"][chance.random_range(0..2)];
            let key = format!("order-{number}");
            let order = self.check_out(&buyer.client, product, &key).await;
            let scenario = *PAYMENT_SCENARIOS.choose(chance).expect("some");
            let (found, came) = match scenario {
                PaymentScenario::FoundPaid => ("finished", json!({})),
                PaymentScenario::SweptShort => ("partially_paid", json!({"actually_paid": 0.001})),
                _ => ("waiting", json!({"actually_paid": 0})),
            };
            self.processor.store_notice(&notice(&order, found, &came));
            self.age(&order, scenario.age()).await;
            let messages = self.messages(&order, scenario, chance);
            self.deliver_shuffled(&messages, chance).await;
            if self.ended(&order, scenario).await == "paid" {
                product.clone_into(&mut record.tier);
            }
            buyer.orders.push(PurchasedOrder { key, order, scenario });
        }
        if chance.random_ratio(1, 4) {
            self.lapse(account).await;
            record.tier = subscribed;
        }
        record.buyer = Some(buyer);
    }

    async fn sign_in(&self, account: AccountId) -> Client {
        let mut conn = self.pool.acquire().await.expect("a connection");
        let origin = Origin { ip_address: None, user_agent: None };
        let begun = web_sessions::begin(&mut conn, account, &origin, Duration::from_hours(1), false).await;
        Client::new(&self.base_url, Some(begun.expect("a web session").token.reveal()))
    }

    async fn ask(&self, request: impl Fn() -> RequestBuilder, mut died: impl AsyncFnMut()) -> Answer {
        loop {
            let answer = request().timeout(Duration::from_secs(10)).send().await;
            if let Ok(answer) = answer
                && !answer.status().is_server_error()
            {
                let (status, headers) = (answer.status(), answer.headers().clone());
                if let Ok(body) = answer.json().await {
                    return Answer { status, headers, body };
                }
            }
            died().await;
            sleep(Duration::from_millis(30)).await;
        }
    }

    async fn listen(&self, client: &Client, account: AccountId) {
        let wanted =
            json!({"url": self.sink.url(&path_of(account)), "events": ["crypto.order.paid", "crypto.order.failed"]});
        loop {
            let known = self.ask(|| client.request(Method::GET, "/v1/webhooks"), async || {}).await.expect(200).body;
            if known["data"].as_array().is_some_and(|endpoints| !endpoints.is_empty()) {
                return;
            }
            // A replica that died before it answered may have created the endpoint.
            let _ = client.request(Method::POST, "/v1/webhooks").json(&wanted).send().await;
        }
    }

    async fn check_out(&self, client: &Client, product: &str, key: &str) -> Value {
        let wanted = json!({"product": product});
        let request = || client.request(Method::POST, CHECKOUT).header("idempotency-key", key).json(&wanted);
        // The next replica must not wait for a claim of the dead one.
        let died = async || {
            let later = "update crypto_orders set asked_at = asked_at - interval '1 hour' where answer is null and idempotency_key = $1";
            sqlx::query(later).bind(key).execute(&self.pool).await.expect("a statement");
        };
        self.ask(request, died).await.expect(201).body
    }

    async fn age(&self, order: &Value, by: &str) {
        let age = "update crypto_orders set created_at = created_at - $2::text::interval, expires_at = expires_at - $2::text::interval
                   where id = $1";
        sqlx::query(age).bind(id_of(order)).bind(by).execute(&self.pool).await.expect("a statement");
    }

    fn messages(&self, order: &Value, scenario: PaymentScenario, chance: &mut StdRng) -> Vec<Message> {
        let waits = [*WAITING.choose(chance).expect("some"), "waiting"].map(|status| (status, json!({})));
        let notices = scenario.notices(order).into_iter().chain(waits);
        let notices = notices.map(|(status, otherwise)| signed_notice(notice(order, status, &otherwise), chance));
        let staff_actions = scenario.staff_actions().iter().map(|action| Message {
            path: format!("/v1/admin/crypto-orders/{}/{action}", order["id"].as_str().expect("an id")),
            body: json!({"reason": "as agreed"}).to_string(),
            proof: Proof::Staff(self.staff.clone()),
        });
        notices.collect::<Vec<_>>().into_iter().chain(staff_actions).collect()
    }

    async fn ended(&self, order: &Value, scenario: PaymentScenario) -> String {
        eventually(Duration::from_mins(1), "no sweep is pending", async || {
            let status = sqlx::query_scalar("select status from crypto_orders where id = $1").bind(id_of(order));
            let status: String = status.fetch_one(&self.pool).await.expect("the order");
            (status != "pending" || scenario.age() != "9 days").then_some(status)
        })
        .await
    }

    async fn lapse(&self, account: AccountId) {
        let over = "update crypto_orders set paid_until = paid_until - interval '70 days' where account_id = $1";
        sqlx::query(over).bind(account.as_uuid()).execute(&self.pool).await.expect("a statement");
        eventually(Duration::from_mins(1), "all paid periods have ended", async || {
            let left =
                "select count(*) from crypto_orders where account_id = $1 and status = 'paid' and lapsed_at is null";
            let left: i64 =
                sqlx::query_scalar(left).bind(account.as_uuid()).fetch_one(&self.pool).await.expect("a count");
            (left == 0).then_some(())
        })
        .await;
    }
}

fn path_of(account: AccountId) -> String {
    format!("/ok/{account}")
}

impl Buyer {
    pub async fn balance(&self, app: &App, sink: &Sink, ends: &mut BTreeMap<String, usize>) {
        let published = sink.received(&path_of(self.account));
        let published: Vec<_> = published.iter().map(Received::json).collect();
        let written = app.audited(self.account, "admin.support_note").await;
        let written: Vec<_> = written.into_iter().map(|row| row.payload).collect();
        for bought in &self.orders {
            let id = &bought.order["id"];
            let of_order = |rows: &[Value], member: &str| -> Vec<Value> {
                rows.iter().filter(|row| row.pointer(member) == Some(id)).cloned().collect()
            };
            let (published, written) = (of_order(&published, "/data/order_id"), of_order(&written, "/order_id"));
            let end = bought.balance(&self.client, &app.database.pool, &published, &written).await;
            *ends.entry(end).or_default() += 1;
        }
        assert_eq!(published.len(), app.recorded(self.account).await, "{}", self.account);
    }
}

impl App {
    async fn recorded(&self, account: AccountId) -> usize {
        let events = "select count(*) from events where account_id = $1 and type like 'crypto.order.%'";
        let events: i64 =
            sqlx::query_scalar(events).bind(account.as_uuid()).fetch_one(&self.database.pool).await.expect("a count");
        usize::try_from(events).expect("few")
    }
}

impl PurchasedOrder {
    /// With its published events and audit rows. Returns its final state.
    async fn balance(&self, client: &Client, pool: &PgPool, published: &[Value], written: &[Value]) -> String {
        let about = format!("{:?} {}: {published:?}", self.scenario, self.order["id"]);
        let path = format!("/v1/billing/crypto-orders/{}", self.order["id"].as_str().expect("an id"));
        let now = client.get(&path).await.expect(200).body;
        let flagged = sqlx::query_scalar("select flag is not null from crypto_orders where id = $1");
        let flagged: bool = flagged.bind(id_of(&self.order)).fetch_one(pool).await.expect("the order");
        let (status, reason) = (now["status"].as_str().expect("a status"), now["reason"].as_str());
        assert!(self.scenario.ends().contains(&(status, reason, flagged)), "{about} {now}");

        let of_kind = |kind: &str| -> Vec<&Value> {
            published.iter().filter(|event| event["type"] == kind).map(|event| &event["data"]).collect()
        };
        let (paid, failed) = (of_kind("crypto.order.paid"), of_kind("crypto.order.failed"));
        assert_eq!(paid.len(), usize::from(status == "paid"), "{about}");
        // An order that staff settle may have failed before.
        let took_back = self.scenario == PaymentScenario::Disputed && status == "paid" && failed.len() == 1;
        assert_eq!(failed.len(), usize::from(status == "failed" || took_back), "{about}");
        for data in &paid {
            assert_eq!(data["paid_at"], now["paid_at"], "{about}");
            assert!(self.scenario == PaymentScenario::PaidTwice || data["payment_id"] == self.paying(), "{about}");
        }
        for data in failed.iter().filter(|_| !took_back) {
            assert_eq!((&data["failed_at"], data["reason"].as_str()), (&now["failed_at"], reason), "{about}");
        }

        let rows_of_action = |action: &str| written.iter().filter(|row| row["operation"] == action).count();
        let expired = failed.iter().filter(|data| data["reason"] == "expired").count();
        assert_eq!(rows_of_action("crypto_order.expired"), expired, "{about}");
        let settled = rows_of_action("crypto_order.settled");
        assert!(settled >= usize::from(took_back || self.scenario == PaymentScenario::Settled), "{about}");
        assert!(settled <= usize::from(self.scenario.staff_actions().contains(&"settle")), "{about}");

        // The idempotency key still returns the first answer.
        let again = client.request(Method::POST, CHECKOUT).header("idempotency-key", &self.key).json(&json!({}));
        let again = client.send(again).await.expect(201);
        assert_eq!((&again.body, again.headers["idempotent-replayed"].as_bytes()), (&self.order, b"1".as_slice()));
        reason.unwrap_or(status).to_owned()
    }

    /// Id of the payment that completes the order.
    fn paying(&self) -> String {
        let by_another = matches!(self.scenario, PaymentScenario::InParts | PaymentScenario::BothShort);
        let more = if by_another { 4_000_000_000_000 } else { 0 };
        (payment(&self.order) + more).to_string()
    }
}
