use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, redirect};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 256 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum PaymentError {
    #[error("this deployment does not accept this kind of payment")]
    Unconfigured,
    #[error("the payment provider is unreachable")]
    Unreachable,
    #[error("the payment provider did not respond in time")]
    Late,
    #[error("the payment provider responded with status {0}")]
    Refused(u16),
    #[error("the payment provider sent an invalid response")]
    Unusable,
}

impl PaymentError {
    /// True when no response arrived.
    #[must_use]
    pub fn is_no_response(&self) -> bool {
        matches!(self, Self::Unconfigured | Self::Unreachable | Self::Late)
    }
}

/// Creates an HTTP client without retries and redirects.
pub fn client() -> reqwest::Result<Client> {
    let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).connect_timeout(CONNECT_WITHIN);
    client.retry(reqwest::retry::never()).user_agent(concat!("kitfleet/", env!("CARGO_PKG_VERSION"))).build()
}

pub async fn answer<T: DeserializeOwned>(request: RequestBuilder, within: Duration) -> Result<T, PaymentError> {
    let exchange = async {
        let response = request.send().await.map_err(|_| PaymentError::Unreachable)?;
        if !response.status().is_success() {
            return Err(PaymentError::Refused(response.status().as_u16()));
        }
        serde_json::from_slice(&whole(response).await?).map_err(|_| PaymentError::Unusable)
    };
    timeout(within, exchange).await.unwrap_or(Err(PaymentError::Late))
}

async fn whole(mut response: Response) -> Result<Vec<u8>, PaymentError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_| PaymentError::Unreachable)? {
        if body.len() + chunk.len() > MAX_BYTES {
            return Err(PaymentError::Unusable);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
