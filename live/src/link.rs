//! Connection between an API process and a worker (contract: live 21 to 23).
//!
//! On one machine it is plain TCP. Between machines it is TLS with a certificate that the worker creates at startup.
//! Its fingerprint is in the worker's row: an attacker who could change that could already do more than read this
//! connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kitfleet_domain::workers::LiveEnd;
use kitfleet_types::ids::SessionId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, ServerConfig, SignatureScheme};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

const LINE_BYTES: usize = 1_024;

/// Timeout for connecting, and for each side's line.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// Placeholder: the worker's certificate is verified by its fingerprint.
const NAME: &str = "worker.kitfleet.internal";

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Not `Debug`, because the ticket is a secret.
#[derive(Clone, Serialize, Deserialize)]
pub struct Greeting {
    pub session_id: SessionId,
    /// Ticket of the viewer, or of a transfer of files.
    pub ticket: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The rest of the connection belongs to the viewer or the transfer.
    pub admitted: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<NotAdmitted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NotAdmitted {
    #[error("the ticket is not valid for this session")]
    Ticket,
    /// The session's browser is not on this worker, or has no view.
    #[error("the session's browser is not on this worker")]
    Session,
    #[error("the session has too many viewers")]
    Full,
    /// The worker is stopping, or cannot check the ticket.
    #[error("the worker accepts no viewers now")]
    Unavailable,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    /// The worker cannot be reached, or its certificate does not match.
    #[error("the worker cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
}

/// After this returns, the stream carries the WebSocket or the transfer from its first byte.
pub async fn connect(end: &LiveEnd, greeting: &Greeting) -> Result<Box<dyn Stream>, ConnectError> {
    let connecting = async {
        let mut stream = dial(end).await?;
        write_line(&mut stream, greeting).await?;
        let answer: Answer = read_line(&mut stream).await?;
        Ok::<_, io::Error>((stream, answer))
    };
    let (stream, answer) = timeout(GREETING_TIMEOUT, connecting).await.map_err(io::Error::from)??;
    if answer.admitted { Ok(stream) } else { Err(answer.reason.unwrap_or(NotAdmitted::Unavailable).into()) }
}

async fn dial(end: &LiveEnd) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect(&*end.address).await?;
    stream.set_nodelay(true)?;
    let Some(fingerprint) = &end.fingerprint else { return Ok(Box::new(stream)) };
    let pinned = Pinned { fingerprint: fingerprint.clone(), provider: Arc::new(ring::default_provider()) };
    let config = ClientConfig::builder_with_provider(Arc::clone(&pinned.provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}

#[derive(Debug)]
struct Pinned {
    fingerprint: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if Sha256::digest(certificate).as_slice() == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        Err(TlsError::General("only TLS 1.3 is supported".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<(TlsAcceptor, Vec<u8>)>,
}

impl Listener {
    /// Starts to listen. Uses TLS with a new certificate unless the address is a loopback address.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        let tls = if address.ip().is_loopback() { None } else { Some(certificate()?) };
        Ok(Self { socket, address, tls })
    }

    #[must_use]
    pub fn end(&self) -> LiveEnd {
        let fingerprint = self.tls.as_ref().map(|(_, fingerprint)| fingerprint.clone());
        LiveEnd { address: self.address.to_string(), fingerprint }
    }

    /// Reads nothing from the connection.
    pub async fn accept(&self) -> io::Result<Incoming> {
        let (stream, _) = self.socket.accept().await?;
        stream.set_nodelay(true)?;
        Ok(Incoming { stream, tls: self.tls.as_ref().map(|(tls, _)| tls.clone()) })
    }
}

pub struct Incoming {
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
}

impl Incoming {
    pub async fn greeting(self) -> io::Result<(Box<dyn Stream>, Greeting)> {
        let Self { stream, tls } = self;
        let hearing = async {
            let mut stream: Box<dyn Stream> = match tls {
                Some(tls) => Box::new(tls.accept(stream).await?),
                None => Box::new(stream),
            };
            let greeting = read_line(&mut stream).await?;
            Ok((stream, greeting))
        };
        timeout(GREETING_TIMEOUT, hearing).await?
    }
}

pub async fn answer(stream: &mut Box<dyn Stream>, admitted: Result<(), NotAdmitted>) -> io::Result<()> {
    let answer = Answer { admitted: admitted.is_ok(), reason: admitted.err() };
    timeout(GREETING_TIMEOUT, write_line(stream, &answer)).await?
}

fn certificate() -> io::Result<(TlsAcceptor, Vec<u8>)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
    let certificate = made.cert.der().clone();
    let fingerprint = Sha256::digest(&certificate).to_vec();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(io::Error::other)?;
    Ok((TlsAcceptor::from(Arc::new(config)), fingerprint))
}

async fn write_line(stream: &mut Box<dyn Stream>, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.flush().await
}

/// Reads one line and no byte after it.
async fn read_line<T: for<'de> Deserialize<'de>>(stream: &mut Box<dyn Stream>) -> io::Result<T> {
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => return Ok(serde_json::from_slice(&line)?),
            _ if line.len() == LINE_BYTES => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
}

#[cfg(test)]
mod tests;
