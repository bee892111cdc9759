//! Egress through a customer's HTTP proxy with CONNECT. The proxy resolves names.

use std::io::Cursor;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kitfleet_tunnels::Credentials;
use tokio::io::{AsyncReadExt, AsyncWriteExt, join};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use url::Host;
use zeroize::Zeroizing;

use crate::connection::Connection;
use crate::refusal::{Fault, ProxyReply, Refusal};
use crate::rules::Rules;
use crate::socks5::broken;
use crate::target::Target;
use crate::upstream::{Proxy, UpstreamAddress};

/// Bytes, and number of fields.
const HEAD_BYTES: usize = 16 * 1024;
const HEAD_FIELDS: usize = 64;

const DIALLED_WITHIN: Duration = Duration::from_secs(8);

/// Timeout from there until the proxy reports that it has connected.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

pub struct Http {
    place: UpstreamAddress,
    /// Header field with its line ending.
    authorization: Zeroizing<String>,
}

struct Answer {
    status: u16,
    /// Bytes after the head; they come from the server if it is connected.
    early: Vec<u8>,
}

impl Http {
    pub fn new(proxy: Proxy, rules: &Rules) -> Self {
        let authorization = proxy.credentials.as_ref().map(authorization).unwrap_or_default();
        Self { place: UpstreamAddress::new(proxy.host, proxy.port, rules), authorization }
    }

    pub async fn connect(&self, target: &Target) -> Result<Connection, Refusal> {
        let mut proxy = self.place.dial(Instant::now() + DIALLED_WITHIN).await?;
        let asked = timeout_at(Instant::now() + CONNECTED_WITHIN, self.ask(&mut proxy, target));
        // The cause may be the proxy or the server, which cannot be distinguished here.
        let Answer { status, early } = asked.await.map_err(|_| ProxyReply::TimedOut)??;
        match refused(status) {
            Some(refusal) => Err(refusal),
            None if early.is_empty() => Ok(Box::new(proxy)),
            None => {
                let (reader, writer) = proxy.into_split();
                Ok(Box::new(join(Cursor::new(early).chain(reader), writer)))
            }
        }
    }

    /// A CONNECT to a reserved name (RFC 2606) leads nowhere and shows whether the proxy accepts the client.
    pub async fn check_login(&self) -> Result<(), Fault> {
        let nowhere = Target { host: Host::Domain("nowhere.invalid".to_owned()), port: 443 };
        let deadline = Instant::now() + DIALLED_WITHIN;
        let mut proxy = self.place.dial(deadline).await?;
        let asked = timeout_at(deadline, self.ask(&mut proxy, &nowhere)).await.map_err(|_| Fault::TimedOut)?;
        match refused(asked?.status) {
            Some(Refusal::Upstream(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    async fn ask(&self, proxy: &mut TcpStream, target: &Target) -> Result<Answer, Fault> {
        let begin = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        let mut request = Zeroizing::new(String::with_capacity(begin.len() + self.authorization.len() + 2));
        request.push_str(&begin);
        request.push_str(&self.authorization);
        request.push_str("\r\n");
        proxy.write_all(request.as_bytes()).await.map_err(broken)?;
        let mut head = Vec::with_capacity(1024);
        loop {
            if proxy.read_buf(&mut head).await.map_err(broken)? == 0 {
                return Err(Fault::HungUp);
            }
            let mut fields = [httparse::EMPTY_HEADER; HEAD_FIELDS];
            let mut response = httparse::Response::new(&mut fields);
            match response.parse(&head) {
                Ok(httparse::Status::Complete(length)) => {
                    let status = response.code.ok_or(Fault::Protocol)?;
                    return Ok(Answer { status, early: head.split_off(length) });
                }
                Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES => {}
                Ok(httparse::Status::Partial) | Err(_) => return Err(Fault::Protocol),
            }
        }
    }
}

fn refused(status: u16) -> Option<Refusal> {
    match status {
        200..300 => None,
        401 | 407 => Some(Fault::Credentials.into()),
        403 | 405 | 451 => Some(ProxyReply::NotAllowed.into()),
        502 | 503 => Some(ProxyReply::Unreachable.into()),
        408 | 504 => Some(ProxyReply::TimedOut.into()),
        // An interim response announces another one, which this client did not request.
        ..200 => Some(Fault::Protocol.into()),
        _ => Some(ProxyReply::Failed.into()),
    }
}

/// RFC 7617.
fn authorization(credentials: &Credentials) -> Zeroizing<String> {
    const FIELD: &str = "Proxy-Authorization: Basic ";
    let Credentials { username, password } = credentials;
    // The full capacity is allocated at the start: growing would leave copies in memory.
    let mut both = Zeroizing::new(String::with_capacity(username.len() + 1 + password.len()));
    both.push_str(username);
    both.push(':');
    both.push_str(password);
    let mut field = Zeroizing::new(String::with_capacity(FIELD.len() + both.len().div_ceil(3) * 4 + 2));
    field.push_str(FIELD);
    STANDARD.encode_string(both.as_bytes(), &mut field);
    field.push_str("\r\n");
    field
}
