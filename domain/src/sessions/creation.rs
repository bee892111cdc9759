//! Creation of sessions: capacity, profile and proxy, and the intent that opens the browser (contract: sessions).

use kitfleet_types::emulation::Emulation;
use kitfleet_types::ids::{AccountId, AgentSessionId, ApiKeyId, IntentId, ProfileId, ProxyId, SessionId, WorkerId};
use kitfleet_types::limits::ConcurrentSessions;
use kitfleet_types::operations::{DialogPolicy, Secrets};
use kitfleet_types::tiers::Tier;
use kitfleet_types::timestamp::Timestamp;
use serde_json::{Map, Value, json};
use sqlx::types::Json;
use sqlx::{Connection as _, PgConnection};

use super::intents::{self, OpenRequest, ReplyTo};
use super::{BehavioralProfile, Session, SessionStatus};
use crate::audit::{self, Actor, Entry};
use crate::recordings::RecordMode;
use crate::vault::{UnsealError, Vault};
use crate::workers::{self, LEASE, NoSlotReason, Placement};
use crate::{accounts, archetypes, profiles, proxies};

#[derive(Debug)]
pub struct NewSession<'a> {
    pub account_id: AccountId,
    pub api_key_id: Option<ApiKeyId>,
    /// `None` selects the profile's device, or else the default of the catalogue.
    pub archetype: Option<&'a str>,
    pub purpose: &'a str,
    pub behavioral_profile: BehavioralProfile,
    pub label: Option<&'a str>,
    pub metadata: Option<Map<String, Value>>,
    pub profile: Option<ProfileId>,
    pub detect_challenges: bool,
    pub emulation: &'a Emulation,
    pub dialogs: DialogPolicy,
    pub record: RecordMode,
    /// The vault opens the proxy's secrets, if the process has one.
    pub proxy: Option<(ProxyId, Option<&'a Vault>)>,
}

#[derive(Debug)]
pub struct Created {
    pub session: Session,
    pub intent: IntentId,
    pub worker: WorkerId,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Profile(#[from] profiles::ChangeError),
    #[error("there is no such saved proxy")]
    NoProxy,
    /// The proxy serves only one session at a time.
    #[error("the agent session {0} uses the proxy; a WireGuard configuration can serve only one session at a time")]
    ProxyInUse(AgentSessionId),
    #[error(transparent)]
    ProxySealed(#[from] UnsealError),
    #[error("the account has {current} live sessions; the limit is {limit}")]
    ConcurrencyLimit { current: i64, limit: i64 },
    #[error("the account is suspended")]
    AccountSuspended,
    /// The free slots, if any, are reserved for queued requests.
    #[error("no browser is free")]
    CapacityExhausted,
    #[error("no browser is available")]
    NoWorker,
    /// No worker has sent a heartbeat within its lease, but one that was not declared dead may still be alive.
    #[error("no worker has reported recently")]
    WorkersSilent,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

#[derive(Debug, Clone, Copy)]
pub struct PlacementLimits<'a> {
    pub allowed: &'a ConcurrentSessions,
    /// `None` when the free slots are reserved for queued requests.
    pub placement: Option<Placement>,
}

/// Reserves the slots, leases the profile, and stores the session, its opening `intent` and the audit entry
/// `session.created`. `conn` is not in a transaction: without a profile, a proxy and extra headers, this is a single
/// statement. The caller must notify the worker.
///
/// The account's row stays locked to the end of the transaction, so that simultaneous creations count each other. A
/// transaction that locks a profile or a proxy locks the account first, to avoid deadlocks.
pub async fn create(
    conn: &mut PgConnection,
    new: &NewSession<'_>,
    bounds: PlacementLimits<'_>,
    actor: &Actor,
    (intent, reply): (IntentId, ReplyTo<'_>),
) -> Result<Created, CreateError> {
    let mut emulation = new.emulation.clone();
    let header_values = emulation.take_header_values().map(Secrets::of_headers);
    if new.profile.is_none() && new.proxy.is_none() && header_values.is_none() {
        return write(conn, new, emulation, None, bounds, actor, (intent, reply)).await;
    }
    let mut tx = conn.begin().await?;
    accounts::lock(&mut tx, new.account_id).await?.ok_or(CreateError::AccountSuspended)?;
    let proxy = match new.proxy {
        Some((id, vault)) => {
            let proxy = proxies::hold(&mut tx, new.account_id, id).await?.ok_or(CreateError::NoProxy)?;
            if let Some(user) = proxies::session_with_same_key(&mut tx, &proxy).await? {
                return Err(CreateError::ProxyInUse(user));
            }
            let secrets = proxy.open(vault)?;
            Some((proxy, secrets))
        }
        None => None,
    };
    let profile = match new.profile {
        Some(id) => Some((id, profiles::take(&mut tx, new.account_id, id).await?)),
        None => None,
    };
    let created = write(&mut tx, new, emulation, profile, bounds, actor, (intent, reply)).await?;
    if let Some(header_values) = header_values {
        intents::seal(&mut tx, (intent, created.worker), &header_values).await?;
    }
    if let Some((proxy, secrets)) = proxy {
        proxies::hand_over(&mut tx, created.session.id, created.worker, &proxy, &secrets).await?;
    }
    tx.commit().await?;
    Ok(created)
}

fn open_request(new: &NewSession<'_>, archetype: &str, emulation: Emulation) -> OpenRequest {
    OpenRequest {
        archetype: archetype.to_owned(),
        behavioral_profile: new.behavioral_profile,
        profile_id: new.profile,
        proxy_id: new.proxy.map(|(id, _)| id),
        detect_challenges: new.detect_challenges,
        emulation,
        dialogs: new.dialogs,
        record: new.record,
    }
}

/// The headers of `emulation` have no values. A session with a profile emulates the profile's device, even after that
/// has left the catalogue (contract: sessions 5).
async fn write(
    conn: &mut PgConnection,
    new: &NewSession<'_>,
    emulation: Emulation,
    profile: Option<(ProfileId, profiles::LeasedProfile)>,
    bounds: PlacementLimits<'_>,
    actor: &Actor,
    (intent, reply): (IntentId, ReplyTo<'_>),
) -> Result<Created, CreateError> {
    let id = SessionId::generate();
    let of_profile = profile.as_ref().map(|(_, profile)| profile.archetype.as_str());
    let archetype = new.archetype.or(of_profile).unwrap_or(&archetypes::launch().id);
    let metadata = metadata(new, profile.as_ref());
    let tiers: Vec<_> = Tier::NAMES.iter().map(|name| (*name).to_owned()).collect();
    let limits: Vec<_> = Tier::ALL.iter().map(|tier| i64::from(bounds.allowed.of(*tier))).collect();
    let state = (*new.emulation != Emulation::default()).then(|| emulation.state());
    let open = open_request(new, archetype, emulation);
    let payload = json!({"archetype": archetype, "purpose": new.purpose, "label": new.label});
    let entry = Entry { action: "session.created", target: Some(id.to_string()), payload };
    let line = audit::AuditRow::new(new.account_id, actor, entry);
    let account = sqlx::query!(
        r#"with account as materialized (
               select live, coalesce(own_limit, allowed) as allowed from lock_and_count_sessions($2) a
               join unnest($14::text[], $15::bigint[]) as t (tier, allowed) on t.tier = a.tier
           ), slot as materialized (
               select take_slot($1, $16, $17) as worker_id from account where live < allowed and $16::boolean is not null
           ), session as (
               insert into sessions
                   (id, account_id, api_key_id, worker_id, operation_id, archetype, purpose, behavioral_profile, label,
                    metadata, profile_id, profile_generation, proxy_id, emulation, record)
               select $1, $2, $3, worker_id, $4, $5, $6, $7, $8, $9::text::json, $10, $11, $20, $22, $23
               from slot where worker_id is not null returning id, worker_id, created_at
           ), intent as (
               insert into intents (id, session_id, worker_id, kind, request, reply_channel, request_id, trace_parent)
               select $4, id, worker_id, 'open', $18, $12, $13, $21 from session
           )
           select live as "live!", allowed as "allowed!", worker_id as "worker_id?: WorkerId",
                  created_at as "created_at?: Timestamp", case when id is not null then write_audit($19) end as line
           from account left join session on true"#,
        id as _,
        new.account_id as _,
        new.api_key_id as _,
        intent as _,
        archetype,
        new.purpose,
        new.behavioral_profile as _,
        new.label,
        // A JSON parameter would be converted to jsonb, which loses the order of members.
        metadata,
        new.profile as _,
        profile.as_ref().map(|(_, profile)| profile.generation),
        reply.channel,
        reply.request_id,
        &tiers,
        &limits,
        bounds.placement.map(|placement| placement == Placement::Pack),
        LEASE.as_secs_f64(),
        json!(open),
        line.columns,
        open.proxy_id as _,
        reply.trace_parent.map(|parent| parent.to_string()),
        state.as_ref().map(|state| json!(state)),
        new.record as _,
    )
    .fetch_optional(&mut *conn)
    .await?
    .ok_or(CreateError::AccountSuspended)?;
    if account.live >= account.allowed {
        return Err(CreateError::ConcurrencyLimit { current: account.live, limit: account.allowed });
    }
    let (Some(worker), Some(created_at)) = (account.worker_id, account.created_at) else {
        return Err(match workers::lack(conn).await? {
            NoSlotReason::Slots => CreateError::CapacityExhausted,
            NoSlotReason::News => CreateError::WorkersSilent,
            NoSlotReason::Workers => CreateError::NoWorker,
        });
    };
    line.count();
    let session = Session {
        id,
        account_id: new.account_id,
        api_key_id: new.api_key_id,
        status: SessionStatus::Creating,
        archetype: open.archetype,
        purpose: new.purpose.to_owned(),
        label: new.label.map(str::to_owned),
        metadata,
        profile_id: new.profile,
        proxy_id: open.proxy_id,
        agent_session_id: None,
        end_reason: None,
        error: None,
        egress_capabilities: None,
        egress_capability_report: None,
        challenge: None,
        dialog: None,
        emulation: state.map(Json),
        record: new.record,
        operation_count: None,
        last_url: None,
        created_at,
        updated_at: created_at,
        last_state_at: None,
        destroyed_at: None,
    };
    Ok(Created { session, intent, worker })
}

/// Adds the id and name of the profile.
fn metadata(new: &NewSession<'_>, profile: Option<&(ProfileId, profiles::LeasedProfile)>) -> Option<String> {
    let mut metadata = new.metadata.clone();
    if let Some((id, profile)) = profile {
        let metadata = metadata.get_or_insert_default();
        metadata.insert("profile_id".to_owned(), id.to_string().into());
        metadata.insert("profile_name".to_owned(), profile.name.clone().into());
    }
    metadata.map(|data| Value::Object(data).to_string())
}
