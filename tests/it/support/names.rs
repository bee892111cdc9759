//! A name server whose answers change with each query.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, OpCode};
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

/// Returns the next address of a name at each query, and the last one from then on. Its answers must not be cached. It counts
/// the queries of each name.
pub struct NameServer {
    asked: Arc<Mutex<HashMap<String, usize>>>,
    _server: AbortOnDropHandle<()>,
}

impl NameServer {
    /// In a test's own network namespace, whose resolver queries the server.
    pub async fn start(addresses: &'static [(&'static str, &'static [&'static str])]) -> Self {
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

    pub fn asked_for(&self, name: &str) -> usize {
        self.asked.lock().expect("no panic").get(name).copied().unwrap_or_default()
    }
}
