//! Time to mail many subscribers, and its cost for other requests.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

use kitfleet_domain::status::subscribers::Unsubscriber;
use kitfleet_types::ids::SubscriberId;
use kitfleet_types::tiers::Tier;

use super::{posted, update};
use crate::support::delays::Delays;
use crate::support::mail::Mail;
use crate::support::{App, Role};

const COUNT: i32 = 10_000;
const ALONE: usize = 300;

/// Contract: status 18, 19, 22. A subscriber who has unsubscribed is not mailed afterwards.
#[tokio::test]
#[ignore = "prints figures: ./ops/test mailing_ten_thousand --run-ignored only --success-output final"]
async fn mailing_ten_thousand_subscribers() {
    let app = App::simulated().roles(&[Role::Api, Role::Worker]).start().await;
    let staff = app.staff().await;
    app.subscribers(COUNT).await;
    let (_, client) = app.customer(Tier::Enterprise).await;
    let session = client.session().await;
    let operate = async || client.navigate(&session, "https://example.com/").await;
    let mut alone = Delays::default();
    for _ in 0..ALONE {
        alone.of(operate()).await;
    }
    let leaving: Vec<(SubscriberId, String)> =
        sqlx::query_as("select id, email from status_subscribers order by random() limit 200")
            .fetch_all(&app.database.pool)
            .await
            .expect("subscribers");
    let mut leaving = leaving.into_iter();
    let signer = Unsubscriber::fetch(&mut app.database.pool.acquire().await.expect("a connection")).await;
    let signer = signer.expect("a key");

    let began = Instant::now();
    let incident = posted(&staff).await;
    let (mut beside, mut leaves, mut updates) = (Delays::default(), Delays::default(), Delays::default());
    let (mut left, mut written) = (HashMap::new(), None);
    let sent = loop {
        for _ in 0..10 {
            beside.of(operate()).await;
        }
        if let Some((id, address)) = leaving.next() {
            leaves.of(app.press("/status/unsubscribe", &signer.sign(id))).await.expect(200);
            left.insert(address, SystemTime::now());
        }
        if written.is_none() {
            updates.of(update(&staff, &incident, "We know more.")).await.expect(200);
            let open =
                app.count("select count(*) from incident_notices where kind = 'posted' and done_at is null").await;
            written = (open == 0).then(|| began.elapsed());
        }
        let waiting =
            app.count("select count(*) from emails where template = 'incident_posted' and status <> 'done'").await;
        if waiting == 0 && written.is_some() {
            break began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_mins(8), "{waiting} mails wait");
    };
    let written = written.expect("the mails were written");

    let outbox = fs::read_dir(app.data_dir.path().join("data/outbox")).expect("the outbox").flatten();
    let posted = outbox.filter(|file| file.file_name().to_string_lossy().contains("-incident_posted-"));
    let mut mails = HashMap::<_, Vec<_>>::new();
    for file in posted {
        let mail = Mail::parse(&fs::read(file.path()).expect("a whole file"));
        let at = file.metadata().and_then(|file| file.modified()).expect("a time");
        mails.entry(mail.to).or_default().push(at);
    }
    assert!(mails.values().all(|times| times.len() == 1), "each subscriber is mailed once");
    let mut spared = 0;
    for (address, left_at) in &left {
        match mails.get(address).map(|times| times[0]) {
            // A mail that is being sent when the subscriber leaves still arrives.
            Some(at) => assert!(at < *left_at + Duration::from_secs(1), "{address} was mailed after unsubscribing"),
            None => spared += 1,
        }
    }
    assert_eq!(mails.len() + spared, 10_000);
    eprintln!("{COUNT} subscribers: their mails written within {written:.1?} and sent within {sent:.1?}");
    eprintln!("{} left meanwhile, {spared} of them before they were mailed: {leaves}", left.len());
    eprintln!("an operation alone: {alone}");
    eprintln!("an operation beside: {beside}");
    eprintln!("an update of the incident meanwhile: {updates}");
    app.stop().await;
}
