//! The payment ledger (contract: billing 27). The service is killed repeatedly while payment providers send events, each up to
//! three times and in any order, and while sweeps and staff end orders and change tiers.
//!
//! A seed determines the random choices. The test prints it, and `KITFLEET_TEST_SEED` repeats it. A long run is
//! `KITFLEET_TEST_PAYMENT_KILLS=200 cargo nextest run -p kitfleet --test it card::ledger --no-capture`.

mod orders;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kitfleet_domain::emails::Template;
use kitfleet_types::ids::AccountId;
use kitfleet_types::tiers::Tier;
use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::time::sleep;

use self::orders::Buyer;
use super::events::{checkout, subscription};
use super::selling;
use crate::support::app::STOPS_WITHIN;
use crate::support::card_provider::{CardProvider, WEBHOOK_SECRET, event, now, signature};
use crate::support::crypto_processor::CryptoProcessor;
use crate::support::sink::Sink;
use crate::support::{App, Client, Role, eventually, given, plain_http};

const START: i64 = 1_790_000_000;
const TIERS: [&str; 3] = ["solo_manual", "api_starter", "api_builder"];
/// Accounts whose providers send events concurrently.
const AT_ONCE: usize = 6;

/// Repeated until the service accepts the request.
struct Message {
    path: String,
    body: String,
    proof: Proof,
}

enum Proof {
    /// Contains the time of sending.
    Card,
    Crypto(String),
    /// Staff accept a 409 when the action already happened.
    Staff(String),
}

impl Message {
    fn of_card(event: &Value) -> Self {
        Self { path: "/v1/billing/card-webhook".to_owned(), body: event.to_string(), proof: Proof::Card }
    }

    fn is_accepted(&self, status: u16) -> bool {
        status == 200 || status == 409 && matches!(self.proof, Proof::Staff(_))
    }
}

#[derive(Default)]
struct Record {
    messages: Vec<Message>,
    /// Sent after staff changed the tier, if they did.
    later: Option<Vec<Message>>,
    /// Expected tier in the end.
    tier: String,
    receipts: i64,
    failures: i64,
    renewals: i64,
    buyer: Option<Buyer>,
}

struct Course<'a> {
    record: &'a mut Record,
    account: AccountId,
    id: String,
    tier: &'static str,
    began: i64,
    at: i64,
}

impl Course<'_> {
    fn push(&mut self, kind: &str, object: &Value) {
        self.at += 1;
        let id = format!("evt_{}_{}", self.id, self.at - self.began);
        self.record.messages.push(Message::of_card(&event(&id, kind, self.at, object)));
    }

    fn push_status(&mut self, kind: &str, status: &str) {
        let mut object = subscription(&self.id, self.account, self.tier, status);
        object["created"] = json!(self.began);
        self.push(kind, &object);
    }

    fn bill(&mut self, kind: &str, id: Option<&str>, amount: i64, attempt: i64) {
        // The oldest API versions omit the account of an invoice.
        let mut object = json!({
            "object": "invoice", "customer": format!("cus_of_{}", self.id), "subscription": self.id, "amount_paid": amount,
            "amount_due": 4_900, "currency": "usd", "attempt_count": attempt, "period_end": self.at + 604_800,
        });
        if let Some(id) = id {
            object["id"] = json!(id);
        }
        self.push(kind, &object);
    }

    /// Returns true when the subscription gives its tier in the end.
    fn run(&mut self, chance: &mut StdRng) -> bool {
        self.push_status("customer.subscription.created", "incomplete");
        if chance.random_ratio(1, 8) {
            self.push_status("customer.subscription.updated", "incomplete_expired");
            return false;
        }
        self.push_status("customer.subscription.updated", "active");
        let done = checkout(&self.id, self.account, self.tier, "paid");
        self.push("checkout.session.completed", &done);
        let mut gives = true;
        for month in 0..chance.random_range(1..4) {
            let invoice = format!("in_{}_{month}", self.id);
            if month > 0 {
                self.bill("invoice.upcoming", None, 0, 0);
                self.record.renewals += 1;
            }
            let attempts = chance.random_range(0..3);
            for attempt in 1..=attempts {
                self.bill("invoice.payment_failed", Some(&invoice), 0, attempt);
                self.record.failures += 1;
                self.push_status("customer.subscription.updated", "past_due");
            }
            if attempts == 2 && chance.random_ratio(1, 2) {
                let status = ["unpaid", "canceled", "paused"][chance.random_range(0..3)];
                self.push_status("customer.subscription.updated", status);
                gives = false;
                continue;
            }
            if attempts > 0 && gives && chance.random_ratio(1, 6) {
                continue;
            }
            let amount = if chance.random_ratio(1, 5) { 0 } else { 4_900 };
            for kind in ["invoice.paid", "invoice.payment_succeeded"] {
                self.bill(kind, Some(&invoice), amount, attempts + 1);
            }
            self.record.receipts += i64::from(amount > 0);
            self.push_status("customer.subscription.updated", "active");
            gives = true;
        }
        if chance.random_ratio(1, 3) {
            self.push_status("customer.subscription.deleted", "canceled");
            gives = false;
        }
        gives
    }
}

/// One subscription, or two that overlap. For some accounts staff change the tier, and the continuing subscriptions then renew
/// or end.
fn record(account: AccountId, chance: &mut StdRng) -> Record {
    let mut record = Record { tier: "free".to_owned(), ..Record::default() };
    record.later = chance.random_ratio(1, 4).then(Vec::new);
    let count = chance.random_range(1..=2);
    for number in 0..count {
        let tier = TIERS[chance.random_range(0..TIERS.len())];
        let began = START + number * 5;
        let id = format!("sub_{}_{number}", account.as_uuid().simple());
        let mut course = Course { record: &mut record, account, id, tier, began, at: began };
        if !course.run(chance) {
            continue;
        }
        let so_far = course.record.messages.len();
        if course.record.later.is_some() {
            course.push_status("customer.subscription.updated", "active");
            if chance.random_ratio(1, 2) {
                course.push_status("customer.subscription.deleted", "canceled");
            }
        }
        let renewals = record.messages.split_off(so_far);
        if let Some(later) = &mut record.later {
            later.extend(renewals);
        }
        tier.clone_into(&mut record.tier);
    }
    record
}

struct Shop {
    base_url: String,
    pool: sqlx::PgPool,
    http: reqwest::Client,
    processor: CryptoProcessor,
    sink: Sink,
    staff: String,
    progress: RefCell<Progress>,
    accepted_count: Cell<usize>,
}

#[derive(Default)]
struct Progress {
    /// No more accounts are started.
    over: bool,
    /// All events were accepted.
    all: bool,
    copies: usize,
    records: BTreeMap<String, (AccountId, Record)>,
}

impl Shop {
    async fn deliver(&self, message: &Message) {
        loop {
            let request = self.http.post(format!("{}{}", self.base_url, message.path));
            let request = match &message.proof {
                Proof::Card => request.header("stripe-signature", signature(&message.body, WEBHOOK_SECRET, now())),
                Proof::Crypto(signature) => request.header("x-nowpayments-sig", signature),
                Proof::Staff(key) => request.bearer_auth(key).header("content-type", "application/json"),
            };
            match request.timeout(Duration::from_secs(10)).body(message.body.clone()).send().await {
                Ok(answer) if message.is_accepted(answer.status().as_u16()) => {
                    self.accepted_count.set(self.accepted_count.get() + 1);
                    return;
                }
                // A valid request never fails with a 4xx.
                Ok(answer) => assert!(answer.status().is_server_error(), "{} to {}", answer.status(), message.body),
                Err(_) => {}
            }
            sleep(Duration::from_millis(30)).await;
        }
    }

    async fn deliver_shuffled(&self, messages: &[Message], chance: &mut StdRng) {
        let mut copies: Vec<_> =
            messages.iter().flat_map(|one| std::iter::repeat_n(one, chance.random_range(1..=3))).collect();
        copies.shuffle(chance);
        // Two run concurrently, so that copies of one event can race.
        for pair in copies.chunks(2) {
            futures_util::future::join_all(pair.iter().map(|one| self.deliver(one))).await;
        }
        self.progress.borrow_mut().copies += copies.len();
    }

    fn tier_change(&self, account: AccountId, tier: &str) -> Message {
        Message {
            path: format!("/v1/admin/accounts/{account}/tier"),
            body: json!({"tier": tier, "reason": "as agreed"}).to_string(),
            proof: Proof::Staff(self.staff.clone()),
        }
    }

    /// One after the other, until the end of the test.
    async fn send_accounts(&self, mut chance: StdRng) {
        while !self.progress.borrow().over {
            let account = account(&self.pool).await;
            let mut record = record(account, &mut chance);
            self.deliver_shuffled(&record.messages, &mut chance).await;
            if chance.random_ratio(1, 2) {
                self.buy(account, &mut record, &mut chance).await;
            }
            if let Some(later) = &record.later {
                self.deliver(&self.tier_change(account, "enterprise")).await;
                self.deliver_shuffled(later, &mut chance).await;
                "enterprise".clone_into(&mut record.tier);
            }
            self.progress.borrow_mut().records.insert(account.to_string(), (account, record));
        }
    }
}

/// In a loop; some sweeps are killed.
async fn sweep(mut command: Command, progress: &RefCell<Progress>, mut chance: StdRng) {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    while !progress.borrow().all {
        let mut child = command.spawn().expect("the binary starts");
        let dies = chance.random_ratio(1, 3);
        if dies {
            sleep(Duration::from_millis(chance.random_range(50..300))).await;
            child.kill().expect("a child");
        }
        let ended = eventually(STOPS_WITHIN, "the sweep ends", async || child.try_wait().expect("a child")).await;
        assert!(dies || ended.success(), "{ended}");
    }
}

async fn account(pool: &sqlx::PgPool) -> AccountId {
    let account = AccountId::generate();
    let made = sqlx::query(
        "insert into accounts (id, email, email_key, name, tier, email_verified_at) values ($1, $2, $2, 'Ada', $3, now())",
    );
    let made = made
        .bind(account.as_uuid())
        .bind(format!("{}@example.com", account.as_uuid().simple()))
        .bind(Tier::Free.name());
    made.execute(pool).await.expect("an account");
    account
}

/// Contract: billing 4, 16, 17, 22 to 25, 27, 31, 33, 36 to 42; staff 8.
#[tokio::test]
async fn killed_service_counts_each_payment_once() {
    let (kills, seed) = (given("KITFLEET_TEST_PAYMENT_KILLS", 5), given("KITFLEET_TEST_SEED", rand::random()));
    eprintln!("KITFLEET_TEST_SEED={seed}");
    let mut chance = StdRng::seed_from_u64(seed);
    let provider = CardProvider::start().await;
    let (processor, sink) = (CryptoProcessor::start().await, Sink::start().await);
    let builder = selling(&provider).paid_in_crypto_at(&processor.base_url).delivering_to(&sink);
    let mut app = builder.roles(&[Role::Api, Role::Worker]).start().await;
    let shop = Shop {
        base_url: app.base_url.clone(),
        pool: app.database.pool.clone(),
        http: plain_http().build().expect("an HTTP client"),
        processor,
        sink,
        staff: app.staff().await.key.expect("a key"),
        progress: RefCell::default(),
        accepted_count: Cell::default(),
    };
    let began = Instant::now();
    let command = app.command(&["sweep", "crypto-orders"]);
    let sweeping = sweep(command, &shop.progress, StdRng::seed_from_u64(seed.wrapping_sub(1)));
    let killing = async {
        let mut api = 0;
        for _ in 0..kills {
            // Kills after some requests were accepted, at any speed of the machine, or shortly after the start.
            if chance.random_ratio(3, 4) {
                let until = shop.accepted_count.get() + chance.random_range(1..160);
                let accepted = async || (shop.accepted_count.get() >= until).then_some(());
                eventually(Duration::from_mins(2), "a request is accepted", accepted).await;
            }
            sleep(Duration::from_millis(chance.random_range(0..300))).await;
            app.signal(api, Signal::SIGKILL).await;
            api = app.start(Role::Api);
        }
        shop.progress.borrow_mut().over = true;
    };
    let senders =
        (0..AT_ONCE as u64).map(|number| shop.send_accounts(StdRng::seed_from_u64(seed.wrapping_add(1 + number))));
    let sending = async {
        futures_util::future::join(killing, futures_util::future::join_all(senders)).await;
        shop.progress.borrow_mut().all = true;
    };
    tokio::join!(sending, sweeping);
    let progress = shop.progress.take();
    assert!(progress.records.len() >= kills, "{} accounts in {:?}", progress.records.len(), began.elapsed());
    eventually(Duration::from_mins(2), "every mail and every event is sent", async || {
        let mails = app.count("select count(*) from emails where status <> 'done'").await;
        (mails + app.count("select count(*) from webhook_deliveries where status <> 'delivered'").await == 0)
            .then_some(())
    })
    .await;
    let (mut sums, mut ends) = ([0; 4], BTreeMap::new());
    for (account, record) in progress.records.values() {
        balance(&app, *account, record, &mut sums).await;
        if let Some(buyer) = &record.buyer {
            buyer.balance(&app, &shop.sink, &mut ends).await;
        }
    }
    let later = |record: &Record| record.later.as_ref().map_or(0, Vec::len);
    let messages: usize = progress.records.values().map(|(_, record)| record.messages.len() + later(record)).sum();
    let by_staff = progress.records.values().filter(|(_, record)| record.later.is_some()).count();
    let events = app.count("select count(*) from card_events").await;
    assert_eq!(usize::try_from(events), Ok(messages));
    let [moves, receipts, failures, renewals] = sums;
    eprintln!(
        "{kills} kills in {:?}: {} accounts, of which staff moved {by_staff}; {messages} events of cards, sent as {} copies; {moves} changes of tier, \
         {receipts} receipts, {failures} failed payments, {renewals} renewals; ends of crypto orders: {ends:?}",
        began.elapsed(),
        progress.records.len(),
        progress.copies,
    );
    app.stop().await;
}

async fn balance(app: &App, account: AccountId, record: &Record, sums: &mut [i64; 4]) {
    assert_eq!(app.tier_of(account).await, record.tier, "{account}");
    let moves = app.moves(account).await;
    let mut tier = "free".to_owned();
    for (from, to) in &moves {
        assert!(*from == tier && from != to, "{account}: {moves:?}");
        tier.clone_from(to);
    }
    assert_eq!(tier, record.tier, "{account}: {moves:?}");
    let count = i64::try_from(moves.len()).expect("few");
    let expected = [
        (Template::TierChanged, count),
        (Template::PaymentReceipt, record.receipts),
        (Template::PaymentFailed, record.failures),
        (Template::RenewalReminder, record.renewals),
    ];
    for ((template, expected), sum) in expected.into_iter().zip(sums) {
        let mails = sqlx::query_scalar("select count(*) from emails where account_id = $1 and template = $2");
        let mails: i64 =
            mails.bind(account.as_uuid()).bind(template.name()).fetch_one(&app.database.pool).await.expect("the mails");
        assert_eq!(mails, expected, "{template:?} of {account}");
        *sum += mails;
    }
}
