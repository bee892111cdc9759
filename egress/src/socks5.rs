//! Egress through a customer's SOCKS 5 proxy. The proxy resolves names.
//!
//! fast-socks5 reads and writes addresses. The rest of the protocol is implemented here: that crate's client panics on
//! reply codes outside the standard, puts the user name into errors, and keeps the password in memory that is not
//! wiped.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use fast_socks5::consts::{
    SOCKS5_AUTH_METHOD_NONE, SOCKS5_AUTH_METHOD_PASSWORD, SOCKS5_CMD_TCP_CONNECT, SOCKS5_CMD_UDP_ASSOCIATE,
    SOCKS5_REPLY_ADDRESS_TYPE_NOT_SUPPORTED, SOCKS5_REPLY_COMMAND_NOT_SUPPORTED, SOCKS5_REPLY_CONNECTION_NOT_ALLOWED,
    SOCKS5_REPLY_CONNECTION_REFUSED, SOCKS5_REPLY_HOST_UNREACHABLE, SOCKS5_REPLY_NETWORK_UNREACHABLE,
    SOCKS5_REPLY_SUCCEEDED, SOCKS5_REPLY_TTL_EXPIRED, SOCKS5_VERSION,
};
use fast_socks5::util::target_addr::{TargetAddr, read_address};
use kitfleet_tunnels::Credentials;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use crate::refusal::{Fault, ProxyReply, Refusal};
use crate::rules::Rules;
use crate::target::Target;
use crate::upstream::{Proxy, UpstreamAddress};

/// RFC 1929.
const PASSWORD_VERSION: u8 = 1;
const PASSWORD_ACCEPTED: u8 = 0;

/// Includes dialling the proxy.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);

/// Timeout from there until the proxy reports that it has connected.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

pub struct Socks5 {
    place: UpstreamAddress,
    login: Option<Zeroizing<Vec<u8>>>,
}

impl Socks5 {
    pub fn new(proxy: Proxy, rules: &Rules) -> Result<Self, Fault> {
        let login = proxy.credentials.as_ref().map(login).transpose()?;
        Ok(Self { place: UpstreamAddress::new(proxy.host, proxy.port, rules), login })
    }

    pub async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let mut proxy = self.connect_and_log_in().await?;
        let (target, deadline) = (target.wire(), Instant::now() + CONNECTED_WITHIN);
        let asked = timeout_at(deadline, request(&mut proxy, SOCKS5_CMD_TCP_CONNECT, &target));
        // The cause may be the proxy or the server, which cannot be distinguished here.
        asked.await.map_err(|_| ProxyReply::TimedOut)??;
        Ok(proxy)
    }

    /// Returns the control connection, which keeps the relay open, and the relay's address as the proxy reports it.
    pub async fn associate(&self) -> Result<(TcpStream, TargetAddr), Refusal> {
        let mut proxy = self.connect_and_log_in().await?;
        let anybody = TargetAddr::Ip(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
        let relay = request(&mut proxy, SOCKS5_CMD_UDP_ASSOCIATE, &anybody).await?;
        Ok((proxy, relay))
    }

    pub async fn connect_and_log_in(&self) -> Result<TcpStream, Fault> {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let mut proxy = self.place.dial(deadline).await?;
        timeout_at(deadline, self.check_login(&mut proxy)).await.map_err(|_| Fault::TimedOut)??;
        Ok(proxy)
    }

    async fn check_login(&self, proxy: &mut TcpStream) -> Result<(), Fault> {
        let methods: &[u8] = match self.login {
            Some(_) => &[SOCKS5_VERSION, 2, SOCKS5_AUTH_METHOD_NONE, SOCKS5_AUTH_METHOD_PASSWORD],
            None => &[SOCKS5_VERSION, 1, SOCKS5_AUTH_METHOD_NONE],
        };
        proxy.write_all(methods).await.map_err(broken)?;
        let [SOCKS5_VERSION, method] = read_two(proxy).await? else { return Err(Fault::Protocol) };
        match (method, &self.login) {
            (SOCKS5_AUTH_METHOD_NONE, _) => Ok(()),
            (SOCKS5_AUTH_METHOD_PASSWORD, Some(login)) => {
                proxy.write_all(login).await.map_err(broken)?;
                match read_two(proxy).await {
                    Ok([PASSWORD_VERSION, PASSWORD_ACCEPTED]) => Ok(()),
                    // The proxy must close the connection after a failed login, and some do so without a reply.
                    Ok([PASSWORD_VERSION, _]) | Err(Fault::HungUp) => Err(Fault::Credentials),
                    Ok(_) => Err(Fault::Protocol),
                    Err(fault) => Err(fault),
                }
            }
            // The proxy requires credentials and there are none, or it requires another method.
            _ => Err(Fault::Credentials),
        }
    }
}

/// Returns the address in the proxy's reply.
async fn request(proxy: &mut TcpStream, command: u8, target: &TargetAddr) -> Result<TargetAddr, Refusal> {
    let mut request = vec![SOCKS5_VERSION, command, 0];
    request.extend(target.to_be_bytes().map_err(|_| Refusal::NameNotFound)?);
    proxy.write_all(&request).await.map_err(broken)?;
    let mut reply = [0; 4];
    proxy.read_exact(&mut reply).await.map_err(broken)?;
    match reply {
        [SOCKS5_VERSION, SOCKS5_REPLY_SUCCEEDED, _, kind] => {
            read_address(proxy, kind).await.map_err(|_| Fault::Protocol.into())
        }
        [SOCKS5_VERSION, code, ..] => Err(reply_of(code).into()),
        _ => Err(Fault::Protocol.into()),
    }
}

fn reply_of(code: u8) -> ProxyReply {
    match code {
        SOCKS5_REPLY_CONNECTION_NOT_ALLOWED => ProxyReply::NotAllowed,
        SOCKS5_REPLY_CONNECTION_REFUSED => ProxyReply::Refused,
        SOCKS5_REPLY_NETWORK_UNREACHABLE | SOCKS5_REPLY_HOST_UNREACHABLE => ProxyReply::Unreachable,
        SOCKS5_REPLY_TTL_EXPIRED => ProxyReply::TimedOut,
        SOCKS5_REPLY_COMMAND_NOT_SUPPORTED | SOCKS5_REPLY_ADDRESS_TYPE_NOT_SUPPORTED => ProxyReply::Unsupported,
        _ => ProxyReply::Failed,
    }
}

/// RFC 1929.
fn login(credentials: &Credentials) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let Credentials { username, password } = credentials;
    let length = |text: &str| u8::try_from(text.len()).map_err(|_| Fault::Credentials);
    // The full capacity is allocated at the start: growing would leave copies in memory.
    let mut login = Zeroizing::new(Vec::with_capacity(3 + username.len() + password.len()));
    login.extend([PASSWORD_VERSION, length(username)?]);
    login.extend(username.as_bytes());
    login.push(length(password)?);
    login.extend(password.as_bytes());
    Ok(login)
}

async fn read_two(proxy: &mut TcpStream) -> Result<[u8; 2], Fault> {
    let mut two = [0; 2];
    proxy.read_exact(&mut two).await.map_err(broken)?;
    Ok(two)
}

pub fn broken(_: io::Error) -> Fault {
    Fault::HungUp
}
