-- Sessions, the workers that own their browsers, and the intents that drive them.

-- One row an incarnation of a worker: a worker that restarts is a new row, because its browsers are gone.
create table workers (
    id uuid primary key,
    name text not null,
    status text not null default 'active' check (status in ('active', 'draining', 'stopped', 'lost')),
    driver text not null check (driver in ('webkit', 'simulated', 'none')),
    max_sessions integer not null,
    -- Secrets in intents are sealed to this X25519 key. Its other half never leaves the worker's memory.
    public_key bytea not null,
    started_at timestamptz not null default now(),
    last_seen_at timestamptz not null default now()
);

create index workers_live_idx on workers (last_seen_at) where status in ('active', 'draining');

create table sessions (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    -- Null when a web session made it.
    api_key_id uuid references api_keys (id),
    worker_id uuid not null references workers (id),
    status text not null default 'creating' check (status in ('creating', 'ready', 'busy', 'destroyed', 'errored')),
    -- The intent that holds the claim. It fences every result: only its holder may release the session.
    operation_id uuid,
    archetype text not null,
    purpose text not null,
    behavioral_profile text not null,
    label text,
    metadata jsonb,
    egress_capabilities jsonb,
    egress_capability_report jsonb,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    last_state_at timestamptz,
    destroyed_at timestamptz,
    constraint sessions_claim_matches_status check (
        case status when 'creating' then operation_id is not null when 'busy' then operation_id is not null else operation_id is null end
    )
);

create index sessions_account_id_idx on sessions (account_id, id desc);
-- The concurrency cap counts these.
create index sessions_live_by_account_idx on sessions (account_id) where status in ('creating', 'ready', 'busy');
-- Placement and rescue look here.
create index sessions_live_by_worker_idx on sessions (worker_id) where status in ('creating', 'ready', 'busy');

-- What a caller wanted of a session. It moves queued -> running -> done, each step by compare-and-set.
create table intents (
    id uuid primary key,
    session_id uuid not null references sessions (id),
    kind text not null check (kind in (
        'open', 'navigate', 'interact', 'wait', 'state_capture', 'capture', 'extract', 'search', 'login'
    )),
    status text not null default 'queued' check (status in ('queued', 'running', 'done')),
    -- The operation without its secrets.
    request jsonb not null,
    -- Its secrets, sealed to the worker's key. Wiped when the intent is done.
    sealed bytea,
    outcome jsonb,
    -- A capture's bytes. Already compressed, so that the table need not try.
    content bytea,
    -- Microseconds the browser itself took; the rest of a request's time is ours.
    browser_us bigint,
    -- The channel on which the process that wrote the intent waits for its outcome.
    reply_channel text not null,
    request_id text not null,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    done_at timestamptz
);

alter table intents alter column content set storage external;

create index intents_open_by_session_idx on intents (session_id) where status <> 'done';
-- Results are wiped soon after they were answered; this finds them.
create index intents_done_at_idx on intents (done_at) where status = 'done';
