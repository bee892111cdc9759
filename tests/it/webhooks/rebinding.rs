//! Names whose addresses change between two questions, in a network whose name server is the test's.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode};
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

use super::{create, id_of, sent};
use crate::support::App;
use crate::support::namespaces::{OWN, PUBLIC, furnish, in_a_network_of_its_own};
use crate::support::sink::Sink;

/// Answers each question for a name with the next of its addresses, and from then on with the last; nobody may keep an
/// answer. How often each name was asked for.
struct NameServer {
    asked: Arc<Mutex<HashMap<String, usize>>>,
    _server: AbortOnDropHandle<()>,
}

impl NameServer {
    async fn start(addresses: &'static [(&'static str, &'static [&'static str])]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:53").await.expect("the port of name servers");
        let asked = Arc::<Mutex<HashMap<String, usize>>>::default();
        let counts = Arc::clone(&asked);
        let server = tokio::spawn(async move {
            let mut buffer = [0; 1_024];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let question = Message::from_vec(&buffer[..length]).expect("a question");
                let mut answer = Message::response(question.metadata.id, OpCode::Query);
                for query in question.queries {
                    if query.query_type() == RecordType::A {
                        let name = query.name().to_string().trim_end_matches('.').to_owned();
                        let known = addresses.iter().find(|(known, _)| *known == name);
                        let mut counts = counts.lock().expect("no panic");
                        let count = counts.entry(name).or_default();
                        if let Some((_, addresses)) = known {
                            let address = addresses[(*count).min(addresses.len() - 1)];
                            let address: Ipv4Addr = address.parse().expect("an address");
                            answer.add_answer(Record::from_rdata(query.name().clone(), 0, RData::A(A(address))));
                        }
                        *count += 1;
                    }
                    answer.add_query(query);
                }
                let answer = answer.to_vec().expect("an answer");
                socket.send_to(&answer, from).await.expect("it is sent");
            }
        });
        Self { asked, _server: AbortOnDropHandle::new(server) }
    }

    fn asked_for(&self, name: &str) -> usize {
        self.asked.lock().expect("no panic").get(name).copied().unwrap_or_default()
    }
}

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
