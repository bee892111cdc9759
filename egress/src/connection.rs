//! Connection to a target, whatever route it takes.

use tokio::io::{AsyncRead, AsyncWrite};

pub type Connection = Box<dyn Stream>;

pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}
