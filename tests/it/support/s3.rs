//! An S3 server that checks signatures and stores objects as files.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kitfleet_profiles::{Bucket, Objects};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle};
use url::Url;

pub const KEY_ID: &str = "kitfleet";
pub const SECRET: &str = "a secret that is long enough";
/// In the configuration.
pub const URL: &str = "s3://profiles/of/tests";

/// A server with a bucket. Dropping it stops it.
pub struct S3 {
    pub endpoint: String,
    folder: TempDir,
    server: JoinHandle<()>,
    is_away: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl S3 {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("profiles")).expect("a bucket");
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).expect("a file system"));
        service.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (is_away, connections) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<AbortHandle>>>::default());
        let (refuses, open) = (Arc::clone(&is_away), Arc::clone(&connections));
        let server = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                if refuses.load(Ordering::Relaxed) {
                    continue;
                }
                let service = service.clone();
                let serving = tokio::spawn(async move {
                    let http = auto::Builder::new(TokioExecutor::new());
                    // A disconnected client is not an error.
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                });
                open.lock().unwrap_or_else(PoisonError::into_inner).push(serving.abort_handle());
            }
        });
        Self { endpoint, folder, server, is_away, connections }
    }

    /// While it is away, it closes all connections.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
        if is_away {
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(|open| open.abort());
        }
    }

    pub fn objects(&self, secret: &str) -> Objects {
        let url = Url::parse(URL).expect("a URL");
        let credentials = Some((KEY_ID, secret));
        let bucket = Bucket { url: &url, endpoint: Some(&self.endpoint), region: "us-east-1", credentials };
        Objects::in_bucket(bucket).expect("a bucket")
    }

    pub fn files(&self) -> Vec<PathBuf> {
        let found = std::fs::read_dir(self.folder.path().join("profiles/of/tests"));
        found.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.server.abort();
    }
}
