//! Names whose addresses change between two look-ups (DNS rebinding).

use super::{create, id_of, send_test_until};
use crate::support::App;
use crate::support::names::NameServer;
use crate::support::namespaces::{OWN, PUBLIC, furnish, in_network_namespace};
use crate::support::sink::Sink;

/// Contract: webhooks 24; egress 3, 6. The check applies to the dialled address.
#[tokio::test]
async fn name_that_becomes_private_is_not_dialled() {
    in_network_namespace("webhooks::rebinding::inside_a_network_of_its_own").await;
}

#[tokio::test]
#[ignore = "another test starts it in its own network namespace"]
async fn inside_a_network_of_its_own() {
    const REBINDING: &str = "rebinding.example";
    const MIXED: &str = "mixed.example";
    const NEAR: [&str; 2] = ["own.example", "neighbour.example"];
    let _names = furnish(&[(PUBLIC, MIXED), ("127.0.0.1", MIXED), (OWN[0], NEAR[0]), (OWN[1], NEAR[1])]);
    let names = NameServer::start(&[(REBINDING, &[PUBLIC, "127.0.0.1"])]).await;
    // The sink accepts connections on the public and the local address.
    let sink = Sink::start_at("0.0.0.0", &[REBINDING, MIXED]).await;
    let local = Sink::start_at("127.0.0.1", &[MIXED]).await;
    let app = App::simulated()
        .set("webhooks.extra_ca_file", &sink.ca_file().display().to_string())
        .set("webhooks.retry_schedule", "[]")
        .start()
        .await;
    let client = app.client().await;

    // The server closes the connection after each answer, so the next delivery needs a new connection.
    let rebinding = sink.url_under(REBINDING, "/unsized/200");
    let id = id_of(&create(&client, &rebinding, &["session.failed"]).await);
    send_test_until(&client, &id, "delivered").await;
    assert_eq!((sink.all().len(), names.asked_for(REBINDING)), (1, 1));
    let refused = send_test_until(&client, &id, "dlq").await;
    let reason = refused["last_error"].as_str().expect("a reason");
    assert!(reason.contains("is not in the public internet"), "{reason}");
    assert_eq!((sink.all().len(), names.asked_for(REBINDING)), (1, 2));

    // Addresses of the machine and its neighbours are refused even if they are public.
    for host in OWN.into_iter().chain(NEAR) {
        let id = id_of(&create(&client, &sink.url_under(host, "/ok"), &["session.failed"]).await);
        let refused = send_test_until(&client, &id, "dlq").await;
        let reason = refused["last_error"].as_str().expect("a reason");
        assert!(reason.contains("is not in the public internet"), "{host}: {reason}");
    }
    assert_eq!(sink.all().len(), 1);

    // Of a name with two addresses only the public one is dialled, even if only the other one answers.
    let id = id_of(&create(&client, &sink.url_under(MIXED, "/ok"), &["session.failed"]).await);
    send_test_until(&client, &id, "delivered").await;
    let id = id_of(&create(&client, &local.url_under(MIXED, "/ok"), &["session.failed"]).await);
    assert_eq!(send_test_until(&client, &id, "dlq").await["last_error"], "connection refused");
    assert!(local.all().is_empty());
    app.stop().await;
}
