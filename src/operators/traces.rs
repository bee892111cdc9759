//! `kitfleet sessions trace` (contract: recordings 37).

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kitfleet_domain::audit::{self, Actor, Entry};
use kitfleet_domain::sessions::inspection;
use kitfleet_recording::Recordings;
use kitfleet_recording::trace::{self, TraceFormat};
use kitfleet_types::ids::SessionId;
use serde_json::json;
use sqlx::PgPool;
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use crate::config::Config;
use crate::output::Format;

pub async fn write(config: &Config, db: &PgPool, session: SessionId, out: &Path, format: Format) -> Result<()> {
    ensure!(config.staff.may_watch, "operators may not read recordings here: `staff.may_watch` is off");
    let found = inspection::find(&mut *db.acquire().await?, session).await?;
    let account = found.with_context(|| format!("there is no session {session}"))?.account_id;
    let recordings = Recordings::new(db.clone(), config.recordings()?).await?;
    let reader = recordings.reader(session).await?.with_context(|| format!("{session} has no recording"))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(out).await.with_context(|| format!("cannot create {}", out.display()))?;
    // Before the content is read: the customer sees also an attempt that fails.
    let entry = Entry {
        action: "admin.support_note",
        target: Some(session.to_string()),
        payload: json!({"note": "an operator read the recording of the session", "session_id": session}),
    };
    audit::record(&mut *db.acquire().await?, account, &Actor::System, entry).await?;
    let (sink, mut chunks) = mpsc::channel(2);
    let title = session.to_string();
    let writing = async move { trace::write(&reader, TraceFormat::V9, &title, &sink).await };
    let storing = async {
        let mut bytes = 0;
        while let Some(chunk) = chunks.recv().await {
            let chunk = chunk?;
            file.write_all(&chunk).await?;
            bytes += chunk.len();
        }
        file.flush().await?;
        std::io::Result::Ok(bytes)
    };
    let (written, stored) = tokio::join!(writing, storing);
    written.context("cannot read the recording")?;
    let bytes = stored.with_context(|| format!("cannot write {}", out.display()))?;
    format.print(&json!({"session_id": session, "file": out, "bytes": bytes}), |_| {
        format!("wrote the trace of {session} to {}", out.display())
    })
}
