//! Checks a customer's proxy or tunnel before a session uses it.

use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::probe::{Capabilities, Probes};
use crate::refusal::Fault;
use crate::route::EgressRoute;
use crate::rules::Rules;
use crate::target::Target;
use crate::upstream::Upstream;

/// Timeout for reading the exit address.
const EXIT_WITHIN: Duration = Duration::from_secs(5);
const EXIT_BYTES: u64 = 8 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Includes authentication.
    pub latency: Duration,
    /// Exit address, if probes were given and one answered.
    pub exit_address: Option<IpAddr>,
    /// Measured capabilities of a SOCKS 5 proxy, if probes were given.
    pub capabilities: Option<Capabilities>,
}

/// Takes at most 15 s. Without probes it contacts no third party.
pub async fn check(upstream: Upstream, rules: &Rules, probes: Option<&Probes>) -> Result<Checked, Fault> {
    let began = Instant::now();
    let route = EgressRoute::open(upstream, rules).await?;
    let latency = began.elapsed();
    let Some(probes) = probes else { return Ok(Checked { latency, exit_address: None, capabilities: None }) };
    let asking = timeout(EXIT_WITHIN, exit_address(&route, &probes.exit_url));
    let (measured, exit_address) = tokio::join!(route.measure(probes), asking);
    let capabilities = measured?.map(|measured| measured.capabilities);
    Ok(Checked { latency, exit_address: exit_address.ok().flatten(), capabilities })
}

/// Exit address as a site sees it. The proxy relays the answer and could falsify it.
async fn exit_address(route: &EgressRoute, url: &Url) -> Option<IpAddr> {
    let site = Target { host: url.host()?.to_owned(), port: url.port_or_known_default()? };
    let mut site_sees = route.connect(&site).await.ok()?;
    // HTTP 1.0, so that the response is not chunked and ends with the connection.
    let request = format!("GET {} HTTP/1.0\r\nHost: {site}\r\nAccept: text/plain\r\n\r\n", url.path());
    site_sees.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    site_sees.take(EXIT_BYTES).read_to_end(&mut answer).await.ok()?;
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    match (response.parse(&answer), response.code) {
        (Ok(httparse::Status::Complete(head)), Some(200)) => str::from_utf8(&answer[head..]).ok()?.trim().parse().ok(),
        _ => None,
    }
}
