//! Storage for the bytes of stores: the database, or an object store with the S3 protocol.
//!
//! Both receive only encrypted bytes: rows of about 1 MiB, or objects.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryStreamExt as _};
use kitfleet_domain::profiles::stores;
use kitfleet_types::ids::StoreId;
use object_store::aws::AmazonS3Builder;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use sqlx::{PgConnection, PgPool};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc::{Receiver, Sender};
use url::Url;

/// Maximum number of chunks in flight to or from the storage.
pub const CHUNKS_IN_FLIGHT: usize = 2;

pub trait BlobStore: Send + Sync {
    fn write(&self, store: StoreId, chunks: Receiver<Bytes>) -> BoxFuture<'_, io::Result<()>>;

    /// The transaction of `conn` keeps the store from being removed.
    fn read<'a>(
        &'a self,
        conn: &'a mut PgConnection,
        store: StoreId,
        to: Sender<Bytes>,
    ) -> BoxFuture<'a, io::Result<()>>;

    /// The caller deletes the store's row.
    fn remove(&self, store: StoreId) -> BoxFuture<'_, io::Result<()>>;
}

pub struct Rows(pub PgPool);

impl BlobStore for Rows {
    fn write(&self, store: StoreId, mut chunks: Receiver<Bytes>) -> BoxFuture<'_, io::Result<()>> {
        async move {
            let mut place = 0;
            while let Some(chunk) = chunks.recv().await {
                // Not one transaction: connections are few, and the row of an incomplete store marks it as such.
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

    /// Deleting the store's row deletes the chunks.
    fn remove(&self, _store: StoreId) -> BoxFuture<'_, io::Result<()>> {
        async { Ok(()) }.boxed()
    }
}

/// Named by the store's id below a prefix.
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

#[derive(Debug, Clone, Copy)]
pub struct Bucket<'a> {
    /// `s3://bucket/prefix`
    pub url: &'a Url,
    /// Server, if it is not Amazon's.
    pub endpoint: Option<&'a str>,
    pub region: &'a str,
    /// Id and secret. Without them, the machine's own permissions are used.
    pub credentials: Option<(&'a str, &'a str)>,
}

impl Objects {
    /// A store may need several requests.
    const REQUEST_LIMIT: Duration = Duration::from_mins(2);
    /// Time during which requests with transient errors are retried, while a session waits.
    const RETRY_LIMIT: Duration = Duration::from_secs(20);
    /// Part size of a multipart upload, and the size from which one is used.
    const PART: usize = 8 * 1024 * 1024;

    pub fn in_bucket(bucket: Bucket<'_>) -> Result<Self, String> {
        let name = bucket.url.host_str().filter(|_| bucket.url.scheme() == "s3");
        let name = name.ok_or("must be a URL such as s3://bucket/prefix")?;
        if !bucket.url.username().is_empty() || bucket.url.password().is_some() {
            return Err(
                "must not contain credentials, because it is shown; use profiles.store.access_key_id".to_owned()
            );
        }
        let in_clear = bucket.endpoint.is_some_and(|endpoint| endpoint.starts_with("http:"));
        if in_clear && !bucket.endpoint.is_some_and(is_loopback) {
            return Err("its server must use https, or be on this machine".to_owned());
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

    fn named(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), Path::join)
    }

    /// Objects other than stores have names with a folder, such as `recordings/…`.
    pub async fn put_named(&self, name: &str, bytes: Bytes) -> io::Result<()> {
        self.store.put(&self.named(name), bytes.into()).await?;
        Ok(())
    }

    pub async fn get_named(&self, name: &str) -> io::Result<Bytes> {
        Ok(self.store.get(&self.named(name)).await?.bytes().await?)
    }

    /// It may be absent.
    pub async fn delete_named(&self, name: &str) -> io::Result<()> {
        match self.store.delete(&self.named(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub async fn check(&self) -> io::Result<()> {
        let probe = self.path(StoreId::generate());
        self.store.put(&probe, "kitfleet".into()).await?;
        self.store.get(&probe).await?.bytes().await?;
        Ok(self.store.delete(&probe).await?)
    }
}

/// Plain HTTP to this machine cannot be intercepted.
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
                    // If the abort fails, the server removes the parts after a time of its own.
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
