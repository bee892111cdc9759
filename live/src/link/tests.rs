use std::net::Ipv4Addr;

use kitfleet_domain::ids::SessionId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// A worker's end on loopback that speaks TLS, as it does elsewhere.
async fn with_tls() -> Listener {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    Listener { tls: Some(certificate().expect("a certificate")), ..listener }
}

fn greeting(ticket: &str) -> Greeting {
    Greeting { session_id: SessionId::generate(), ticket: ticket.to_owned() }
}

/// Lets whoever shows the right ticket in, and says what they say.
async fn echo(listener: Listener) {
    while let Ok(incoming) = listener.accept().await {
        let Ok((mut stream, greeting)) = incoming.greeting().await else { continue };
        let admitted = if greeting.ticket == "right" { Ok(()) } else { Err(NotAdmitted::Ticket) };
        answer(&mut stream, admitted).await.expect("an answer");
        if admitted.is_ok() {
            let mut said = [0; 5];
            stream.read_exact(&mut said).await.expect("five bytes");
            stream.write_all(&said).await.expect("they go back");
            stream.flush().await.expect("they go back");
        }
    }
}

async fn hears_an_echo(end: &LiveEnd) {
    let mut stream = connect(end, &greeting("right")).await.expect("let in");
    stream.write_all(b"hello").await.expect("five bytes");
    stream.flush().await.expect("five bytes");
    let mut heard = [0; 5];
    stream.read_exact(&mut heard).await.expect("five bytes");
    assert_eq!(&heard, b"hello");
    let refused = connect(end, &greeting("wrong")).await;
    assert!(matches!(refused, Err(ConnectError::NotAdmitted(NotAdmitted::Ticket))));
}

/// On one machine it is plain, and what follows the lines is nobody's but the two ends' (contract: live 21 to 23).
#[tokio::test]
async fn a_ticket_opens_a_way() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let end = listener.end();
    assert_eq!(end.fingerprint, None);
    let echoing = tokio::spawn(echo(listener));
    hears_an_echo(&end).await;
    echoing.abort();
}

/// Between machines it is TLS, and nobody is believed but the worker whose certificate is known (contract: live 21).
#[tokio::test]
async fn no_other_certificate_is_believed() {
    let (listener, other) = (with_tls().await, with_tls().await);
    let (end, foreign) = (listener.end(), other.end());
    assert_ne!(end.fingerprint, foreign.fingerprint);
    let echoing = [tokio::spawn(echo(listener)), tokio::spawn(echo(other))];
    hears_an_echo(&end).await;
    let in_between = LiveEnd { fingerprint: end.fingerprint.clone(), ..foreign };
    assert!(matches!(connect(&in_between, &greeting("right")).await, Err(ConnectError::Unreachable(_))));
    let in_clear = LiveEnd { fingerprint: None, ..end };
    assert!(matches!(connect(&in_clear, &greeting("right")).await, Err(ConnectError::Unreachable(_))));
    for task in echoing {
        task.abort();
    }
}

/// Whoever says nothing of use, or too much, is not heard out (contract: live 22).
#[tokio::test]
async fn a_line_has_an_end() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let address = listener.end().address;
    for said in ["\n".to_owned(), "GET / HTTP/1.1\r\n".to_owned(), "x".repeat(5_000)] {
        let mut stranger = TcpStream::connect(&address).await.expect("a connection");
        stranger.write_all(said.as_bytes()).await.expect("some bytes");
        let incoming = listener.accept().await.expect("a connection");
        assert!(incoming.greeting().await.is_err());
    }
}
