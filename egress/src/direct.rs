//! Egress without a proxy. Names are resolved here, and exactly the checked address is dialled: a later change of the
//! name's addresses has no effect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use url::Host;

use crate::refusal::Refusal;
use crate::rules::Rules;
use crate::target::Target;

/// Concurrent lookups of one browser.
const MAX_LOOKUPS: usize = 8;

/// Shared by all addresses of the name.
const WITHIN: Duration = Duration::from_secs(10);

pub struct Direct {
    rules: Rules,
    look_ups: Semaphore,
}

impl Direct {
    pub fn new(rules: &Rules) -> Self {
        Self { rules: rules.clone(), look_ups: Semaphore::new(MAX_LOOKUPS) }
    }

    pub async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let deadline = Instant::now() + WITHIN;
        let allowed = self.allowed_addresses(target, deadline).await?;
        dial(&allowed, deadline).await
    }

    /// Returns at least one address.
    async fn allowed_addresses(&self, target: &Target, deadline: Instant) -> Result<Vec<SocketAddr>, Refusal> {
        let found = match (target.address(), &target.host) {
            (None, Host::Domain(name)) => {
                let found = timeout_at(deadline, self.resolve(name)).await.map_err(|_| Refusal::NameNotFound)??;
                found.into_iter().map(|address| SocketAddr::new(address, target.port)).collect()
            }
            (address, _) => Vec::from_iter(address),
        };
        permitted(found, |address| self.rules.permit_site(address))
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, Refusal> {
        let _turn = self.look_ups.acquire().await.map_err(|_| Refusal::NameNotFound)?;
        self.rules.names.addresses(name).await.map_err(|error| {
            tracing::debug!(%error, "target host name does not resolve");
            Refusal::NameNotFound
        })
    }
}

/// Returns at least one address.
pub fn permitted(mut found: Vec<SocketAddr>, permit: impl Fn(SocketAddr) -> bool) -> Result<Vec<SocketAddr>, Refusal> {
    if found.is_empty() {
        return Err(Refusal::NameNotFound);
    }
    found.retain(|address| permit(*address));
    if found.is_empty() { Err(Refusal::NotAllowed) } else { Ok(found) }
}

/// Dials the addresses in order. Each attempt gets the remaining time divided by the number of addresses that are left.
pub async fn dial(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, Refusal> {
    let mut refusal = Refusal::Unreachable;
    for (address, shares) in addresses.iter().rev().zip(1_u32..).collect::<Vec<_>>().into_iter().rev() {
        let share = deadline.saturating_duration_since(Instant::now()) / shares;
        refusal = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(server)) => {
                // Sends small writes, such as those of a WebSocket, without delay.
                let _ = server.set_nodelay(true);
                return Ok(server);
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Refusal::Refused,
            Ok(Err(_)) => Refusal::Unreachable,
            Err(_) => Refusal::TimedOut,
        };
    }
    Err(refusal)
}
