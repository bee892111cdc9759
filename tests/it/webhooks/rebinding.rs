//! Names whose addresses change between two questions.

use super::{create, id_of, sent};
use crate::support::App;
use crate::support::names::NameServer;
use crate::support::namespaces::{OWN, PUBLIC, furnish, in_a_network_of_its_own};
use crate::support::sink::Sink;

/// Contract: webhooks 24; egress 3, 6. DNS rebinding. Which address is dialled is judged, and not which one a name had before.
#[tokio::test]
async fn a_name_that_becomes_private_is_not_dialled() {
    in_a_network_of_its_own("webhooks::rebinding::inside_a_network_of_its_own").await;
}

/// See [`a_name_that_becomes_private_is_not_dialled`], which starts it.
#[tokio::test]
#[ignore = "runs in a network of its own, where another test starts it"]
async fn inside_a_network_of_its_own() {
    const REBINDING: &str = "rebinding.example";
    const MIXED: &str = "mixed.example";
    const NEAR: [&str; 2] = ["own.example", "neighbour.example"];
    let _names = furnish(&[(PUBLIC, MIXED), ("127.0.0.1", MIXED), (OWN[0], NEAR[0]), (OWN[1], NEAR[1])]);
    let names = NameServer::start(&[(REBINDING, &[PUBLIC, "127.0.0.1"])]).await;
    // Whoever dials either address gets there.
    let sink = Sink::start_at("0.0.0.0", &[REBINDING, MIXED]).await;
    let local = Sink::start_at("127.0.0.1", &[MIXED]).await;
    let app = App::simulated()
        .set("webhooks.extra_ca_file", &sink.ca_file().display().to_string())
        .set("webhooks.retry_schedule", "[]")
        .start()
        .await;
    let client = app.client().await;

    // The server hangs up after each answer, so that the next delivery needs a connection of its own.
    let rebinding = sink.url_under(REBINDING, "/unsized/200");
    let id = id_of(&create(&client, &rebinding, &["session.failed"]).await);
    sent(&client, &id, "delivered").await;
    assert_eq!((sink.all().len(), names.asked_for(REBINDING)), (1, 1));
    let refused = sent(&client, &id, "dlq").await;
    let told = refused["last_error"].as_str().expect("a reason");
    assert!(told.contains("is not in the public internet"), "{told}");
    assert_eq!((sink.all().len(), names.asked_for(REBINDING)), (1, 2));

    // What is the machine's own, or near it, is refused however public its address is.
    for host in OWN.into_iter().chain(NEAR) {
        let id = id_of(&create(&client, &sink.url_under(host, "/ok"), &["session.failed"]).await);
        let refused = sent(&client, &id, "dlq").await;
        let told = refused["last_error"].as_str().expect("a reason");
        assert!(told.contains("is not in the public internet"), "{host}: {told}");
    }
    assert_eq!(sink.all().len(), 1);

    // Of a name with two addresses the public one is dialled, also where only the other answers.
    let id = id_of(&create(&client, &sink.url_under(MIXED, "/ok"), &["session.failed"]).await);
    sent(&client, &id, "delivered").await;
    let id = id_of(&create(&client, &local.url_under(MIXED, "/ok"), &["session.failed"]).await);
    assert_eq!(sent(&client, &id, "dlq").await["last_error"], "connection refused");
    assert!(local.all().is_empty());
    app.stop().await;
}
