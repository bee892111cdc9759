//! Whether what a customer brings leads anywhere, for a customer who wants to know before a session does.

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

/// How long it may take to learn the exit address.
const EXIT_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of an answer that says it, at most.
const EXIT_BYTES: u64 = 8 * 1024;

/// What came of a look at what a customer brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// How long it took to open, to where it knows the customer.
    pub latency: Duration,
    /// The address as which it leaves, if that was asked for and answered.
    pub exit_address: Option<IpAddr>,
    /// What it can do, if it is a SOCKS 5 proxy and that was asked for.
    pub capabilities: Option<Capabilities>,
}

/// Opens what a customer brings, looks what it can do and where it leaves, and closes it. It takes fifteen seconds at most. Without
/// probes it asks nobody else.
///
/// # Errors
/// When nothing leads through it.
pub async fn check(upstream: Upstream, rules: &Rules, probes: Option<&Probes>) -> Result<Checked, Fault> {
    let began = Instant::now();
    let way = EgressRoute::open(upstream, rules).await?;
    let latency = began.elapsed();
    let Some(probes) = probes else { return Ok(Checked { latency, exit_address: None, capabilities: None }) };
    let asking = timeout(EXIT_WITHIN, exit_address(&way, &probes.exit_url));
    let (measured, exit_address) = tokio::join!(way.measure(probes), asking);
    let capabilities = measured?.map(|measured| measured.capabilities);
    Ok(Checked { latency, exit_address: exit_address.ok().flatten(), capabilities })
}

/// The address that a site sees. It is the proxy's word, which could say anything.
async fn exit_address(way: &EgressRoute, url: &Url) -> Option<IpAddr> {
    let site = Target { host: url.host()?.to_owned(), port: url.port_or_known_default()? };
    let mut site_sees = way.connect(&site).await.ok()?;
    // Of HTTP 1.0, so that nothing is chunked and the end is the end.
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
