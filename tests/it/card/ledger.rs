//! The ledger of payments (contract: billing 27): the service dies again and again while payment providers tell it what happened, each
//! thing up to three times and in any order, while staff and sweeps end what nobody told of, and staff move some accounts to another
//! tier. Afterwards every account is where its providers' records and staff have it, and everything was done once.
//!
//! What is left to chance comes from a seed, which is printed and which `KITFLEET_TEST_SEED` gives again. A long run is
//! `KITFLEET_TEST_PAYMENT_KILLS=200 cargo nextest run -p kitfleet --test it card::ledger --no-capture`.

mod orders;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kitfleet_domain::accounts::Tier;
use kitfleet_domain::emails::Template;
use kitfleet_domain::ids::AccountId;
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
/// Accounts whose providers tell at the same time.
const AT_ONCE: usize = 6;

/// Something that somebody tells until it is taken.
struct Message {
    path: String,
    body: String,
    proof: Proof,
}

/// The header by which it is believed.
enum Proof {
    /// The card provider's signature, which says when it was sent.
    Card,
    /// The crypto processor's.
    Crypto(String),
    /// The credential of staff, who do not mind when it was done already.
    Staff(String),
}

impl Message {
    fn of_card(event: &Value) -> Self {
        Self { path: "/v1/billing/card-webhook".to_owned(), body: event.to_string(), proof: Proof::Card }
    }

    /// Whether this is an answer to it after which it need not be told again.
    fn is_taken(&self, status: u16) -> bool {
        status == 200 || status == 409 && matches!(self.proof, Proof::Staff(_))
    }
}

/// What the providers have written down of an account.
#[derive(Default)]
struct Record {
    /// What the card provider tells.
    messages: Vec<Message>,
    /// What it tells after staff have moved the account, where they do.
    later: Option<Vec<Message>>,
    /// Where the account is to end.
    tier: String,
    receipts: i64,
    failures: i64,
    renewals: i64,
    /// What it bought with crypto currencies besides.
    buyer: Option<Buyer>,
}

/// A subscription that the provider keeps.
struct Course<'a> {
    record: &'a mut Record,
    account: AccountId,
    id: String,
    tier: &'static str,
    began: i64,
    at: i64,
}

impl Course<'_> {
    fn tell(&mut self, kind: &str, object: &Value) {
        self.at += 1;
        let id = format!("evt_{}_{}", self.id, self.at - self.began);
        self.record.messages.push(Message::of_card(&event(&id, kind, self.at, object)));
    }

    fn stand(&mut self, kind: &str, status: &str) {
        let mut object = subscription(&self.id, self.account, self.tier, status);
        object["created"] = json!(self.began);
        self.tell(kind, &object);
    }

    fn bill(&mut self, kind: &str, id: Option<&str>, amount: i64, attempt: i64) {
        // What the oldest versions of the provider's API tell: nothing in it says whose it is.
        let mut object = json!({
            "object": "invoice", "customer": format!("cus_of_{}", self.id), "subscription": self.id, "amount_paid": amount,
            "amount_due": 4_900, "currency": "usd", "attempt_count": attempt, "period_end": self.at + 604_800,
        });
        if let Some(id) = id {
            object["id"] = json!(id);
        }
        self.tell(kind, &object);
    }

    /// All that happens to it. Answers whether it gives its tier at the end.
    fn run(&mut self, chance: &mut StdRng) -> bool {
        self.stand("customer.subscription.created", "incomplete");
        if chance.random_ratio(1, 8) {
            self.stand("customer.subscription.updated", "incomplete_expired");
            return false;
        }
        self.stand("customer.subscription.updated", "active");
        let done = checkout(&self.id, self.account, self.tier, "paid");
        self.tell("checkout.session.completed", &done);
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
                self.stand("customer.subscription.updated", "past_due");
            }
            if attempts == 2 && chance.random_ratio(1, 2) {
                let status = ["unpaid", "canceled", "paused"][chance.random_range(0..3)];
                self.stand("customer.subscription.updated", status);
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
            self.stand("customer.subscription.updated", "active");
            gives = true;
        }
        if chance.random_ratio(1, 3) {
            self.stand("customer.subscription.deleted", "canceled");
            gives = false;
        }
        gives
    }
}

/// One subscription, or two of which the second begins while the first goes on. Staff may move the account to another tier, and then what
/// goes on is renewed, or ends.
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
            course.stand("customer.subscription.updated", "active");
            if chance.random_ratio(1, 2) {
                course.stand("customer.subscription.deleted", "canceled");
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

/// A service that dies, and those around it.
struct Shop {
    base_url: String,
    pool: sqlx::PgPool,
    http: reqwest::Client,
    processor: CryptoProcessor,
    sink: Sink,
    /// A credential of staff.
    staff: String,
    told: RefCell<Told>,
    /// How much was taken so far.
    taken: Cell<usize>,
}

#[derive(Default)]
struct Told {
    /// No account is begun any more.
    over: bool,
    /// Nobody has anything to tell any more.
    all: bool,
    copies: usize,
    records: BTreeMap<String, (AccountId, Record)>,
}

impl Shop {
    /// Tells it until it is taken.
    async fn deliver(&self, message: &Message) {
        loop {
            let request = self.http.post(format!("{}{}", self.base_url, message.path));
            let request = match &message.proof {
                Proof::Card => request.header("stripe-signature", signature(&message.body, WEBHOOK_SECRET, now())),
                Proof::Crypto(signature) => request.header("x-nowpayments-sig", signature),
                Proof::Staff(key) => request.bearer_auth(key).header("content-type", "application/json"),
            };
            match request.timeout(Duration::from_secs(10)).body(message.body.clone()).send().await {
                Ok(answer) if message.is_taken(answer.status().as_u16()) => {
                    self.taken.set(self.taken.get() + 1);
                    return;
                }
                // Nothing that is good is ever refused for good.
                Ok(answer) => assert!(answer.status().is_server_error(), "{} to {}", answer.status(), message.body),
                Err(_) => {}
            }
            sleep(Duration::from_millis(30)).await;
        }
    }

    /// Tells all of it, each message one to three times, in any order.
    async fn spread(&self, messages: &[Message], chance: &mut StdRng) {
        let mut copies: Vec<_> =
            messages.iter().flat_map(|one| std::iter::repeat_n(one, chance.random_range(1..=3))).collect();
        copies.shuffle(chance);
        // Two at once, so that what is the same meets itself.
        for pair in copies.chunks(2) {
            futures_util::future::join_all(pair.iter().map(|one| self.deliver(one))).await;
        }
        self.told.borrow_mut().copies += copies.len();
    }

    /// Staff move an account to another tier.
    fn given_by_staff(&self, account: AccountId, tier: &str) -> Message {
        Message {
            path: format!("/v1/admin/accounts/{account}/tier"),
            body: json!({"tier": tier, "reason": "as was agreed"}).to_string(),
            proof: Proof::Staff(self.staff.clone()),
        }
    }

    /// The providers of accounts that are made one after the other, until it is over.
    async fn tell(&self, mut chance: StdRng) {
        while !self.told.borrow().over {
            let account = account(&self.pool).await;
            let mut record = record(account, &mut chance);
            self.spread(&record.messages, &mut chance).await;
            if chance.random_ratio(1, 2) {
                self.buy(account, &mut record, &mut chance).await;
            }
            if let Some(later) = &record.later {
                self.deliver(&self.given_by_staff(account, "enterprise")).await;
                self.spread(later, &mut chance).await;
                "enterprise".clone_into(&mut record.tier);
            }
            self.told.borrow_mut().records.insert(account.to_string(), (account, record));
        }
    }
}

/// Sweeps again and again, and is killed now and then.
async fn sweep(mut command: Command, told: &RefCell<Told>, mut chance: StdRng) {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    while !told.borrow().all {
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
async fn a_service_that_dies_counts_nothing_twice() {
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
        told: RefCell::default(),
        taken: Cell::default(),
    };
    let began = Instant::now();
    let command = app.command(&["sweep", "crypto-orders"]);
    let sweeping = sweep(command, &shop.told, StdRng::seed_from_u64(seed.wrapping_sub(1)));
    let killing = async {
        let mut api = 0;
        for _ in 0..kills {
            // In the midst of what is told, however slow the machine is; or a moment after it was begun, whatever it does then.
            if chance.random_ratio(3, 4) {
                let until = shop.taken.get() + chance.random_range(1..160);
                let midst = async || (shop.taken.get() >= until).then_some(());
                eventually(Duration::from_mins(2), "something is taken", midst).await;
            }
            sleep(Duration::from_millis(chance.random_range(0..300))).await;
            app.signal(api, Signal::SIGKILL).await;
            api = app.start(Role::Api);
        }
        shop.told.borrow_mut().over = true;
    };
    let tellers = (0..AT_ONCE as u64).map(|number| shop.tell(StdRng::seed_from_u64(seed.wrapping_add(1 + number))));
    let telling = async {
        futures_util::future::join(killing, futures_util::future::join_all(tellers)).await;
        shop.told.borrow_mut().all = true;
    };
    tokio::join!(telling, sweeping);
    let told = shop.told.take();
    assert!(told.records.len() >= kills, "{} accounts in {:?}", told.records.len(), began.elapsed());
    eventually(Duration::from_mins(2), "every mail and every event is sent", async || {
        let mails = app.count("select count(*) from emails where status <> 'done'").await;
        (mails + app.count("select count(*) from webhook_deliveries where status <> 'delivered'").await == 0)
            .then_some(())
    })
    .await;
    let (mut sums, mut ends) = ([0; 4], BTreeMap::new());
    for (account, record) in told.records.values() {
        balance(&app, *account, record, &mut sums).await;
        if let Some(buyer) = &record.buyer {
            buyer.balance(&app, &shop.sink, &mut ends).await;
        }
    }
    let later = |record: &Record| record.later.as_ref().map_or(0, Vec::len);
    let messages: usize = told.records.values().map(|(_, record)| record.messages.len() + later(record)).sum();
    let by_staff = told.records.values().filter(|(_, record)| record.later.is_some()).count();
    let events = app.count("select count(*) from card_events").await;
    assert_eq!(usize::try_from(events), Ok(messages));
    let [moves, receipts, failures, renewals] = sums;
    eprintln!(
        "{kills} deaths in {:?}: {} accounts, of which staff moved {by_staff}; {messages} events of cards, all told as {} copies; {moves} changes of tier, \
         {receipts} receipts, {failures} failed payments, {renewals} renewals; ends of crypto orders: {ends:?}",
        began.elapsed(),
        told.records.len(),
        told.copies,
    );
    app.stop().await;
}

/// Compares what the service has to what the provider wrote down.
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
