//! Where the bytes of stores are kept: in the database, or in an object store that speaks S3.
//!
//! Neither sees anything but sealed bytes. In the database they are rows of about a mebibyte.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryStreamExt as _};
use kitfleet_domain::ids::StoreId;
use kitfleet_domain::profiles::stores;
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use sqlx::{PgConnection, PgPool};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::{Receiver, Sender};
use url::Url;

/// Chunks that are on their way to or from a place.
pub const CHUNKS_UNDER_WAY: usize = 2;

/// Keeps the bytes of stores.
pub trait BlobStore: Send + Sync {
    /// Keeps the chunks that come, in their order, as a new store.
    fn write(&self, store: StoreId, chunks: Receiver<Bytes>) -> BoxFuture<'_, io::Result<()>>;

    /// Gives a store's bytes, until nobody takes more. The connection is the one whose transaction keeps the store from being
    /// removed.
    fn read<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        store: StoreId,
        to: Sender<Bytes>,
    ) -> BoxFuture<'a, io::Result<()>>;

    /// Removes what is kept of a store, if anything is. Its row goes, too, and what refers to that.
    fn remove(&self, store: StoreId) -> BoxFuture<'_, io::Result<()>>;
}

/// Rows of the database.
pub struct Rows(pub PgPool);

impl BlobStore for Rows {
    fn write(&self, store: StoreId, mut chunks: Receiver<Bytes>) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let mut place = 0;
            while let Some(chunk) = chunks.recv().await {
                // Not one transaction: the row of a store that is not complete says so, and connections are few.
                let mut conn = self.0.acquire().await.map_err(io::Error::other)?;
                stores::write_chunk(&mut conn, store, place, &chunk).await.map_err(io::Error::other)?;
                place += 1;
            }
            Ok(())
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        store: StoreId,
        to: Sender<Bytes>,
    ) -> BoxFuture<'a, io::Result<()>> {
        pass_on(stores::chunks(conn, store).map_ok(Bytes::from), to).boxed()
    }

    /// They go with the store's row.
    fn remove(&self, _store: StoreId) -> BoxFuture<'_, io::Result<()>> {
        async { Ok(()) }.boxed()
    }
}

/// Objects of a bucket, each named by its store, below a prefix.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({}, {})", self.store, self.prefix)
    }
}

/// Where a bucket is, and what opens it.
#[derive(Debug, Clone, Copy)]
pub struct Bucket<'a> {
    /// `s3://bucket/prefix`
    pub url: &'a Url,
    /// The server, where that is not Amazon's.
    pub endpoint: Option<&'a str>,
    /// Its region.
    pub region: &'a str,
    /// What the server calls us, and what we prove that with; without them, what the machine is allowed to.
    pub credentials: Option<(&'a str, &'a str)>,
}

impl Objects {
    /// A single request never takes longer; a store may have many.
    const REQUEST_LIMIT: Duration = Duration::from_mins(2);
    /// How long requests are repeated that failed in a way that may pass. Somebody waits for a session meanwhile.
    const RETRY_LIMIT: Duration = Duration::from_secs(20);
    /// Larger stores are uploaded in parts of this size.
    const PART: usize = 8 * 1024 * 1024;

    /// # Errors
    /// When it cannot be the address of a bucket.
    pub fn in_bucket(bucket: Bucket<'_>) -> Result<Self, String> {
        let name = bucket.url.host_str().filter(|_| bucket.url.scheme() == "s3");
        let name = name.ok_or("must be a URL such as s3://bucket/prefix")?;
        if !bucket.url.username().is_empty() || bucket.url.password().is_some() {
            return Err(
                "must not hold what opens it, which would be shown: see profiles.store.access_key_id".to_owned()
            );
        }
        let in_clear = bucket.endpoint.is_some_and(|endpoint| endpoint.starts_with("http:"));
        if in_clear && !bucket.endpoint.is_some_and(is_loopback) {
            return Err("its server must be an https one, or on this machine".to_owned());
        }
        let mut s3 = AmazonS3Builder::new()
            .with_bucket_name(name)
            .with_region(bucket.region)
            .with_client_options(ClientOptions::new().with_timeout(Self::REQUEST_LIMIT).with_allow_http(in_clear))
            .with_retry(RetryConfig { max_retries: 3, retry_timeout: Self::RETRY_LIMIT, ..RetryConfig::default() });
        if let Some(endpoint) = bucket.endpoint {
            s3 = s3.with_endpoint(endpoint);
        }
        if let Some((id, secret)) = bucket.credentials {
            s3 = s3.with_access_key_id(id).with_secret_access_key(secret);
        }
        let prefix = Path::parse(bucket.url.path().trim_matches('/')).map_err(|error| error.to_string())?;
        Ok(Self::at(Arc::new(s3.build().map_err(|error| error.to_string())?), prefix))
    }

    pub(crate) fn at(store: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { store, prefix }
    }

    fn path(&self, store: StoreId) -> Path {
        self.prefix.clone().join(store.to_string())
    }

    /// Writes an object, reads it and removes it, as stores are.
    ///
    /// # Errors
    /// When one of that cannot be done.
    pub async fn check(&self) -> io::Result<()> {
        let probe = self.path(StoreId::generate());
        self.store.put(&probe, "kitfleet".into()).await?;
        self.store.get(&probe).await?.bytes().await?;
        Ok(self.store.delete(&probe).await?)
    }
}

/// Whether a URL leads to this machine, where nobody listens to what is said in clear.
fn is_loopback(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    })
}

impl BlobStore for Objects {
    fn write(&self, store: StoreId, mut chunks: Receiver<Bytes>) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let object = BufWriter::with_capacity(Arc::clone(&self.store), self.path(store), Self::PART);
            let mut object = object.with_max_concurrency(2);
            while let Some(chunk) = chunks.recv().await {
                if let Err(error) = object.put(chunk).await {
                    // The server forgets the parts in its own time if it does not hear of this.
                    let _ = object.abort().await;
                    return Err(error.into());
                }
            }
            object.shutdown().await
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        _conn: &'a mut PgConnection,
        store: StoreId,
        to: Sender<Bytes>,
    ) -> BoxFuture<'a, io::Result<()>> {
        async move {
            let object = self.store.get(&self.path(store)).await?;
            pass_on(object.into_stream(), to).await
        }
        .boxed()
    }

    fn remove(&self, store: StoreId) -> BoxFuture<'_, io::Result<()>> {
        async move {
            match self.store.delete(&self.path(store)).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        .boxed()
    }
}

/// Hands on what comes until nobody takes more.
async fn pass_on<E>(
    bytes: impl futures_util::Stream<Item = Result<Bytes, E>> + Send,
    to: Sender<Bytes>,
) -> io::Result<()>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut bytes = std::pin::pin!(bytes);
    while let Some(some) = bytes.try_next().await.map_err(io::Error::other)? {
        if to.send(some).await.is_err() {
            break;
        }
    }
    Ok(())
}
