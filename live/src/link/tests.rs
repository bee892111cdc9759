use std::net::Ipv4Addr;

use kitfleet_types::ids::SessionId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

async fn with_tls() -> Listener {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    Listener { tls: Some(certificate().expect("a certificate")), ..listener }
}

fn greeting(ticket: &str) -> Greeting {
    Greeting { session_id: SessionId::generate(), ticket: ticket.to_owned() }
}

/// Admits connections with the right ticket, and echoes five bytes.
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

async fn check_echo(end: &LiveEnd) {
    let mut stream = connect(end, &greeting("right")).await.expect("let in");
    stream.write_all(b"hello").await.expect("five bytes");
    stream.flush().await.expect("five bytes");
    let mut greeting_bytes = [0; 5];
    stream.read_exact(&mut greeting_bytes).await.expect("five bytes");
    assert_eq!(&greeting_bytes, b"hello");
    let refused = connect(end, &greeting("wrong")).await;
    assert!(matches!(refused, Err(ConnectError::NotAdmitted(NotAdmitted::Ticket))));
}

/// On one machine the connection is plain TCP, and all bytes after the lines are passed unchanged (contract: live 21 to 23).
#[tokio::test]
async fn valid_ticket_opens_a_connection() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let end = listener.end();
    assert_eq!(end.fingerprint, None);
    let echoing = tokio::spawn(echo(listener));
    check_echo(&end).await;
    echoing.abort();
}

/// Between machines the connection is TLS, and only the certificate with the known fingerprint is accepted (contract: live 21).
#[tokio::test]
async fn other_certificates_are_refused() {
    let (listener, other) = (with_tls().await, with_tls().await);
    let (end, foreign) = (listener.end(), other.end());
    assert_ne!(end.fingerprint, foreign.fingerprint);
    let echoing = [tokio::spawn(echo(listener)), tokio::spawn(echo(other))];
    check_echo(&end).await;
    let in_between = LiveEnd { fingerprint: end.fingerprint.clone(), ..foreign };
    assert!(matches!(connect(&in_between, &greeting("right")).await, Err(ConnectError::Unreachable(_))));
    let in_clear = LiveEnd { fingerprint: None, ..end };
    assert!(matches!(connect(&in_clear, &greeting("right")).await, Err(ConnectError::Unreachable(_))));
    for task in echoing {
        task.abort();
    }
}

/// Invalid or overlong greetings are refused (contract: live 22).
#[tokio::test]
async fn invalid_greetings_are_refused() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.expect("a port");
    let address = listener.end().address;
    for sent in ["\n".to_owned(), "GET / HTTP/1.1\r\n".to_owned(), "x".repeat(5_000)] {
        let mut stranger = TcpStream::connect(&address).await.expect("a connection");
        stranger.write_all(sent.as_bytes()).await.expect("some bytes");
        let incoming = listener.accept().await.expect("a connection");
        assert!(incoming.greeting().await.is_err());
    }
}
