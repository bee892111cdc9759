//! Files of agent sessions, which their messages can name (contract: files 17).

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use kitfleet_domain::agents;
use kitfleet_types::files::{FileName, UploadedFile};
use kitfleet_types::ids::{AgentSessionId, AttachedFileId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::WRITE_AGENTS;
use crate::http::auth::Caller;
use crate::http::error::Result;
use crate::http::json::read_large;
use crate::http::openapi::{Body, NoAgentSession, Restricted, Transferring};
use crate::http::path::{IdPath, not_found};
use crate::http::routing::Routes;
use crate::http::state::App;
use crate::routes::sessions::file_links;
use crate::routes::sessions::operations::FileContent;

pub fn routes() -> Routes {
    Routes::new().allow(WRITE_AGENTS, routes!(create))
}

/// File to attach to an agent session
#[derive(Deserialize, ToSchema)]
#[schema(as = AgentFileCreate, example = json!({"name": "cv.pdf", "content_type": "application/pdf", "content": "JVBERi0x"}))]
struct FileBody {
    /// Name by which messages refer to the file, and which pages see. Of a path only the last part counts, and hidden characters are
    /// removed
    #[schema(min_length = 1, max_length = 4_096)]
    name: String,
    /// Media type. The page sees the one that a browser derives from the name
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// Content of the file in base64, of at most 16 MiB
    #[schema(value_type = String, format = Byte)]
    content: FileContent,
}

/// File that is attached to an agent session
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"id": "file_019abc12-7d3f-7c41-9f0e-5b6a7c8d9e0f", "name": "cv.pdf"}))]
struct AgentFile {
    /// ID of the file
    #[schema(value_type = String)]
    id: AttachedFileId,
    /// Name by which messages refer to the file
    #[schema(value_type = String)]
    name: FileName,
}

/// Attach a file to an agent session
///
/// A message can then say `upload "NAME" into …`. The file exists as long as the browser. A later file with the same name replaces
/// an earlier one.
#[utoipa::path(
    post, path = "/v1/agent-sessions/{id}/files", tag = "Agent sessions", operation_id = "createAgentFile",
    params(IdPath<AgentSessionId>), request_body = FileBody,
    responses((status = 201, description = "The file", body = AgentFile), Restricted, Body, NoAgentSession, Transferring),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    path: IdPath<AgentSessionId>,
    request: Request,
) -> Result<(StatusCode, Answer<AgentFile>)> {
    let (body, _reservation) = read_large::<FileBody>(request, &app, caller.account_id).await?;
    let file = body.check(|FileBody { name, content_type, content: FileContent(content) }| {
        UploadedFile::parse(&name, content_type.as_deref(), content, "")
    })?;
    file_links::require_size(std::slice::from_ref(&file))?;
    let patience = app.config.agents.heartbeat_timeout;
    let found = agents::find(&mut *app.db.acquire().await?, caller.account_id, path.id()?, patience).await?;
    let session = found.ok_or_else(not_found::<AgentSessionId>)?.session_id;
    let attached = AgentFile { id: AttachedFileId::generate(), name: file.name.clone() };
    file_links::attach(&app, &caller, session, file).await?;
    Ok((StatusCode::CREATED, Answer(attached)))
}
