//! Sessions of all accounts, as operators and staff see them (contract: staff 17, 18).

use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId, IntentId, ProfileId, ProxyId, SessionId, WorkerId};
use kitfleet_types::timestamp::Timestamp;
use serde::Serialize;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::SessionStatus;
use crate::challenges::ChallengeState;
use crate::workers::LEASE;

#[derive(Debug, Clone, Serialize)]
pub struct SessionSummary {
    pub id: SessionId,
    pub account_id: AccountId,
    pub status: SessionStatus,
    /// Kind of the operation, such as `navigate`.
    pub operation: Option<String>,
    pub archetype: String,
    pub label: Option<String>,
    pub worker_id: WorkerId,
    /// Known for as long as the worker's row is kept.
    pub worker_name: Option<String>,
    pub profile_id: Option<ProfileId>,
    pub agent_session_id: Option<AgentSessionId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFilter {
    pub all: bool,
    pub status: Option<SessionStatus>,
    pub account: Option<AccountId>,
    pub worker: Option<WorkerId>,
    pub profile: Option<ProfileId>,
    pub before: Option<SessionId>,
    pub limit: i64,
}

/// Live sessions, and ended sessions of a given account, are read through an index, so the cost does not grow with the
/// number of ended sessions of other accounts.
pub async fn list(conn: &mut PgConnection, filter: &SessionFilter) -> sqlx::Result<Vec<SessionSummary>> {
    let SessionFilter { all, status, account, worker, profile, before, limit } = *filter;
    let all = all || matches!(status, Some(SessionStatus::Destroyed | SessionStatus::Errored));
    sqlx::query_as!(
        SessionSummary,
        r#"select s.id, s.account_id, s.status as "status: _", i.kind as "operation?", s.archetype, s.label, s.worker_id,
                  w.name as "worker_name?", s.profile_id, a.id as "agent_session_id?: AgentSessionId", s.created_at, s.updated_at,
                  s.ended_at
           from sessions s
                left join workers w on w.id = s.worker_id
                left join intents i on i.id = s.operation_id
                left join agent_sessions a on a.session_id = s.id
           where s.id = any(array(
               -- All live sessions are read through an index, and the newest of them are joined.
               (select id from (
                    select id from sessions
                    where not $1 and live and ($2::text is null or status = $2) and ($3::uuid is null or account_id = $3)
                      and ($4::uuid is null or worker_id = $4) and ($5::uuid is null or profile_id = $5) and id < $6 offset 0
                ) live order by id desc limit $7)
               union all
               (select id from sessions
                where $1 and $3 is null and ($2 is null or $2 <> 'errored' and status = $2) and ($4 is null or worker_id = $4)
                  and ($5 is null or profile_id = $5) and id < $6 order by id desc limit $7)
               union all
               (select id from sessions
                where $1 and $3 is null and $2 = 'errored' and not live and ended = 'errored' and ($4 is null or worker_id = $4)
                  and ($5 is null or profile_id = $5) and id < $6 order by id desc limit $7)
               union all
               (select id from sessions
                where $1 and account_id = $3 and ($2 is null or status = $2) and ($4 is null or worker_id = $4)
                  and ($5 is null or profile_id = $5) and id < $6 order by id desc limit $7)
           )) order by s.id desc limit $7"#,
        all,
        status.map(SessionStatus::name),
        account as _,
        worker as _,
        profile as _,
        before.map_or(Uuid::max(), |before| before.as_uuid()),
        limit,
    )
    .fetch_all(conn)
    .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// It has not begun the operation or has not sent a heartbeat within its lease.
    Worker,
    Browser,
    Profile,
    Operation,
    Viewer,
    Challenge,
    Approval,
    Human,
    /// The session has ended.
    ProfileSave,
}

impl WaitsFor {
    pub const NAMES: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct SessionDetail {
    pub id: SessionId,
    pub account_id: AccountId,
    pub account_email: String,
    pub api_key_id: Option<ApiKeyId>,
    pub status: SessionStatus,
    /// `None` when it waits for the account owner's next request, or for nothing.
    pub waits_for: Option<WaitsFor>,
    pub archetype: String,
    pub purpose: String,
    pub label: Option<String>,
    /// Address of the page after the last operation whose result is still kept.
    pub url: Option<String>,
    pub operation: Option<OperationInfo>,
    pub worker: WorkerInfo,
    pub profile: Option<ProfileLease>,
    pub proxy_id: Option<ProxyId>,
    pub agent_session: Option<AgentInfo>,
    pub challenge: Option<ChallengeState>,
    pub recording: Option<RecordingInfo>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize)]
pub struct RecordingInfo {
    pub bytes: i64,
    /// Time of the last stored segment.
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
pub struct OperationInfo {
    pub id: IntentId,
    pub kind: String,
    /// `queued`, `running`, or `unknown` when its worker died while it ran.
    pub status: String,
    pub request_id: String,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize)]
pub struct WorkerInfo {
    pub id: WorkerId,
    /// Known for as long as the worker's row is kept.
    pub name: Option<String>,
    /// `active`, `draining`, `stopped` or `lost`.
    pub status: Option<String>,
    /// Sent a heartbeat within its lease.
    pub is_alive: bool,
    pub last_seen_at: Option<Timestamp>,
    pub slot: Option<i32>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ProfileLease {
    pub id: ProfileId,
    pub name: Option<String>,
    /// Saved when the session ends.
    pub is_held: bool,
    /// Another session that still holds it.
    pub holder: Option<SessionId>,
}

#[derive(Debug, Clone, Serialize)]
pub struct AgentInfo {
    pub id: AgentSessionId,
    /// `manual`, `ai` or `pair`.
    pub mode: String,
    pub has_turn: bool,
    pub needs_approval: bool,
    pub is_human_driven: bool,
}

pub async fn find(conn: &mut PgConnection, id: SessionId) -> sqlx::Result<Option<SessionDetail>> {
    let row = sqlx::query!(
        r#"select s.id, s.account_id, o.email, s.api_key_id as "api_key_id: ApiKeyId", s.status as "status: SessionStatus",
                  s.archetype, s.purpose, s.label, s.worker_id as "worker_id: WorkerId", s.live, s.profile_in_hand,
                  s.profile_id as "profile_id: ProfileId", s.proxy_id as "proxy_id: ProxyId",
                  case when s.live then s.challenge end as "challenge: Json<ChallengeState>", s.created_at, s.updated_at,
                  s.ended_at as "ended_at: Timestamp",
                  w.name as "worker_name?", w.status as "worker_status?", w.last_seen_at as "last_seen_at?: Timestamp",
                  coalesce(w.status in ('active', 'draining') and w.last_seen_at > now() - make_interval(secs => $2), false)
                      as "is_alive!",
                  (select number from worker_slots l where l.session_id = s.id) as slot,
                  i.id as "operation_id?: IntentId", i.kind as "kind?", i.status as "operation_status?",
                  i.request_id as "request_id?", i.created_at as "requested_at?: Timestamp", i.started_at as "started_at?: Timestamp",
                  p.name as "profile_name?",
                  (select h.id from sessions h join workers hw on hw.id = h.worker_id
                   where h.profile_id = s.profile_id and h.profile_in_hand and h.id <> s.id and hw.status in ('active', 'draining')
                   order by h.id limit 1) as "holder: SessionId",
                  a.id as "agent_session_id?: AgentSessionId", a.mode as "mode?", a.turn_id is not null as "has_turn!",
                  a.driver is not null as "is_human_driven!",
                  exists(select from agent_steps t where t.agent_session_id = a.id and t.status = 'needs_approval')
                      as "needs_approval!",
                  (select coalesce(r.result->>'final_url', r.result->>'post_login_url', r.result->>'url') from intents r
                   where r.session_id = s.id and r.result is not null
                     and coalesce(r.result->>'final_url', r.result->>'post_login_url', r.result->>'url') is not null
                   order by r.id desc limit 1) as url,
                  c.bytes as "recording_bytes?", c.updated_at as "recorded_at?: Timestamp"
           from sessions s
                join accounts o on o.id = s.account_id
                left join workers w on w.id = s.worker_id
                left join intents i on i.id = s.operation_id
                left join profiles p on p.id = s.profile_id
                left join agent_sessions a on a.session_id = s.id
                left join recordings c on c.session_id = s.id and c.removable_at is null
           where s.id = $1"#,
        id as _,
        LEASE.as_secs_f64(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let operation = row.operation_id.zip(row.kind).zip(row.operation_status).zip(row.request_id).zip(row.requested_at);
    let operation = operation.map(|((((id, kind), status), request_id), created_at)| OperationInfo {
        id,
        kind,
        // Only an operation with an unknown outcome keeps its session busy after it ended.
        status: if status == "done" { "unknown".to_owned() } else { status },
        request_id,
        created_at,
        started_at: row.started_at,
    });
    let profile = row.profile_id.map(|id| ProfileLease {
        id,
        name: row.profile_name,
        is_held: row.profile_in_hand,
        holder: row.holder,
    });
    let agent_session = row.agent_session_id.zip(row.mode).map(|(id, mode)| AgentInfo {
        id,
        mode,
        has_turn: row.has_turn,
        needs_approval: row.needs_approval,
        is_human_driven: row.is_human_driven,
    });
    let mut detail = SessionDetail {
        id: row.id,
        account_id: row.account_id,
        account_email: row.email,
        api_key_id: row.api_key_id,
        status: row.status,
        waits_for: None,
        archetype: row.archetype,
        purpose: row.purpose,
        label: row.label,
        url: row.url,
        operation,
        worker: WorkerInfo {
            id: row.worker_id,
            name: row.worker_name,
            status: row.worker_status,
            is_alive: row.is_alive,
            last_seen_at: row.last_seen_at,
            slot: row.slot,
        },
        profile,
        proxy_id: row.proxy_id,
        agent_session,
        challenge: row.challenge.map(|Json(challenge)| challenge),
        recording: row
            .recording_bytes
            .zip(row.recorded_at)
            .map(|(bytes, updated_at)| RecordingInfo { bytes, updated_at }),
        created_at: row.created_at,
        updated_at: row.updated_at,
        ended_at: row.ended_at,
    };
    detail.waits_for = detail.wait();
    Ok(Some(detail))
}

impl SessionDetail {
    fn wait(&self) -> Option<WaitsFor> {
        let is_held = self.profile.as_ref().is_some_and(|profile| profile.is_held);
        let is_queued = self.operation.as_ref().is_some_and(|operation| operation.status == "queued");
        let is_input = self.operation.as_ref().is_some_and(|operation| operation.kind == "gui_input");
        match self.status {
            SessionStatus::Destroyed | SessionStatus::Errored => is_held.then_some(WaitsFor::ProfileSave),
            _ if !self.worker.is_alive => Some(WaitsFor::Worker),
            SessionStatus::Creating | SessionStatus::Busy if is_queued => Some(WaitsFor::Worker),
            SessionStatus::Creating => {
                let holder = self.profile.as_ref().and_then(|profile| profile.holder);
                Some(if holder.is_some() && !is_held { WaitsFor::Profile } else { WaitsFor::Browser })
            }
            SessionStatus::Busy => Some(if is_input { WaitsFor::Viewer } else { WaitsFor::Operation }),
            SessionStatus::Ready if self.challenge.is_some() => Some(WaitsFor::Challenge),
            SessionStatus::Ready => {
                let agent = self.agent_session.as_ref()?;
                if agent.needs_approval {
                    Some(WaitsFor::Approval)
                } else {
                    agent.is_human_driven.then_some(WaitsFor::Human)
                }
            }
        }
    }
}

pub async fn account_of(conn: &mut PgConnection, id: SessionId) -> sqlx::Result<Option<AccountId>> {
    sqlx::query_scalar!(r#"select account_id as "account: AccountId" from sessions where id = $1"#, id as _)
        .fetch_optional(conn)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(status: SessionStatus) -> SessionDetail {
        let now = Timestamp(chrono::DateTime::UNIX_EPOCH);
        SessionDetail {
            id: SessionId::generate(),
            account_id: AccountId::generate(),
            account_email: "ada@example.com".to_owned(),
            api_key_id: None,
            status,
            waits_for: None,
            archetype: "iphone-16-ios-18".to_owned(),
            purpose: "production_customer".to_owned(),
            label: None,
            url: None,
            operation: None,
            worker: WorkerInfo {
                id: WorkerId::generate(),
                name: None,
                status: Some("active".to_owned()),
                is_alive: true,
                last_seen_at: None,
                slot: None,
            },
            profile: None,
            proxy_id: None,
            agent_session: None,
            challenge: None,
            recording: None,
            created_at: now,
            updated_at: now,
            ended_at: None,
        }
    }

    fn with_operation(status: SessionStatus, kind: &str, operation: &str) -> SessionDetail {
        let mut detail = detail(status);
        detail.operation = Some(OperationInfo {
            id: IntentId::generate(),
            kind: kind.to_owned(),
            status: operation.to_owned(),
            request_id: "req".to_owned(),
            created_at: detail.created_at,
            started_at: None,
        });
        detail
    }

    fn with_profile(mut detail: SessionDetail, is_held: bool, holder: Option<SessionId>) -> SessionDetail {
        detail.profile = Some(ProfileLease { id: ProfileId::generate(), name: None, is_held, holder });
        detail
    }

    fn with_agent(needs_approval: bool, is_human_driven: bool) -> SessionDetail {
        let mut detail = detail(SessionStatus::Ready);
        let (id, mode) = (AgentSessionId::generate(), "pair".to_owned());
        detail.agent_session = Some(AgentInfo { id, mode, has_turn: false, needs_approval, is_human_driven });
        detail
    }

    #[test]
    fn each_state_names_what_the_session_waits_for() {
        let opening = |kind| with_operation(SessionStatus::Creating, "open", kind);
        let mut silent = detail(SessionStatus::Ready);
        silent.worker.is_alive = false;
        let ended = detail(SessionStatus::Destroyed);
        for (detail, expected) in [
            (detail(SessionStatus::Ready), None),
            (silent, Some(WaitsFor::Worker)),
            (opening("queued"), Some(WaitsFor::Worker)),
            (opening("running"), Some(WaitsFor::Browser)),
            (with_profile(opening("running"), false, Some(SessionId::generate())), Some(WaitsFor::Profile)),
            (with_profile(opening("running"), true, None), Some(WaitsFor::Browser)),
            (with_operation(SessionStatus::Busy, "navigate", "queued"), Some(WaitsFor::Worker)),
            (with_operation(SessionStatus::Busy, "navigate", "running"), Some(WaitsFor::Operation)),
            (with_operation(SessionStatus::Busy, "gui_input", "running"), Some(WaitsFor::Viewer)),
            (with_agent(true, false), Some(WaitsFor::Approval)),
            (with_agent(false, true), Some(WaitsFor::Human)),
            (with_agent(false, false), None),
            (with_profile(ended.clone(), true, None), Some(WaitsFor::ProfileSave)),
            (with_profile(ended.clone(), false, None), None),
            (ended, None),
        ] {
            assert_eq!(detail.wait(), expected, "{detail:?}");
        }
    }
}
