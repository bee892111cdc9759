//! A mail server on loopback, which can reject mails, stop responding, go down and restart.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use mailin::{Action, Handler, Response, SessionBuilder};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use super::app::free_port;
use super::mail::Mail;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerBehavior {
    Accepts,
    Refuses(u16, &'static str),
    /// Accepts a mail, but does not confirm it.
    StopsAnswering,
}

/// Up or down.
pub struct MailServer {
    address: SocketAddr,
    seen: Arc<Seen>,
    running: Option<(CancellationToken, JoinHandle<()>)>,
}

struct Seen {
    behavior: Mutex<ServerBehavior>,
    taken: Mutex<Vec<Mail>>,
    /// Mails that were not confirmed.
    silences: Mutex<usize>,
}

impl MailServer {
    /// It accepts mails after `come_up`.
    pub fn down() -> Self {
        let seen =
            Seen { behavior: Mutex::new(ServerBehavior::Accepts), taken: Mutex::default(), silences: Mutex::default() };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        Self { address, seen: Arc::new(seen), running: None }
    }

    pub fn up() -> Self {
        let mut server = Self::down();
        server.come_up();
        server
    }

    pub fn come_up(&mut self) {
        let (stop, seen, address) = (CancellationToken::new(), Arc::clone(&self.seen), self.address);
        let told = stop.clone();
        let listener = std::net::TcpListener::bind(address).expect("the port is still free");
        listener.set_nonblocking(true).expect("a listener");
        // The future of a conversation cannot move between threads.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, told.run_until_cancelled(serve(listener, seen)));
        });
        self.running = Some((stop, thread));
    }

    /// Closes all connections.
    pub fn stop_listening(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            stop.cancel();
            thread.join().expect("the mail server does not panic");
        }
    }

    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    pub fn set_behavior(&self, behavior: ServerBehavior) {
        *self.seen.behavior.lock().expect("no panic") = behavior;
    }

    /// Oldest first.
    pub fn taken(&self) -> Vec<Mail> {
        self.seen.taken.lock().expect("no panic").clone()
    }

    /// Mails that were not confirmed.
    pub fn silences(&self) -> usize {
        *self.seen.silences.lock().expect("no panic")
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

async fn serve(listener: std::net::TcpListener, seen: Arc<Seen>) {
    let listener = TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let seen = Arc::clone(&seen);
        tokio::task::spawn_local(async move {
            // A broken connection is not an error.
            let _ = converse(stream, seen).await;
        });
    }
}

async fn converse(stream: TcpStream, seen: Arc<Seen>) -> std::io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let (mut reader, mut line) = (BufReader::new(reader), Vec::new());
    let taker = MessageHandler { seen: Arc::clone(&seen), message: Vec::new() };
    let mut session = SessionBuilder::new("mail.test").build(IpAddr::V4(Ipv4Addr::LOCALHOST), taker);
    writer.write_all(&session.greeting().buffer()?).await?;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        if line == b".\r\n" && *seen.behavior.lock().expect("no panic") == ServerBehavior::StopsAnswering {
            *seen.silences.lock().expect("no panic") += 1;
            return std::future::pending().await;
        }
        let response = session.process(&line);
        if response.action != Action::NoReply {
            writer.write_all(&response.buffer()?).await?;
        }
        if response.action == Action::Close {
            return Ok(());
        }
    }
}

struct MessageHandler {
    seen: Arc<Seen>,
    message: Vec<u8>,
}

impl Handler for MessageHandler {
    fn rcpt(&mut self, _to: &str) -> Response {
        match *self.seen.behavior.lock().expect("no panic") {
            ServerBehavior::Refuses(code, text) => Response::custom(code, text.to_owned()),
            ServerBehavior::Accepts | ServerBehavior::StopsAnswering => mailin::response::OK,
        }
    }

    fn data(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.message.extend_from_slice(line);
        Ok(())
    }

    fn data_end(&mut self) -> Response {
        self.seen.taken.lock().expect("no panic").push(Mail::parse(&self.message));
        mailin::response::OK
    }
}
