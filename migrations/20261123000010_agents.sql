-- Agent sessions: browsers that are told in words what to do, and what was made of these words.

create table agent_sessions (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    -- Its driver session. That one may be purged before: the column then says which it was.
    session_id uuid not null,
    mode text not null check (mode in ('manual', 'ai', 'pair')),
    status text not null default 'active' check (status in ('active', 'closed')),
    close_reason text check (
        close_reason in ('customer', 'driver_session_ended', 'account_suspended', 'account_deleted')
    ),
    -- The client of the human who drives in pair mode, and when it was last heard of; null while the AI drives.
    driver text,
    heard_at timestamptz,
    archetype text not null,
    profile_id uuid,
    label text,
    token_budget integer not null,
    tokens_used bigint not null default 0,
    -- The turn under way: it is the lock that lets one run at a time.
    turn_id uuid,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    destroyed_at timestamptz,
    constraint agent_sessions_closed_for_a_reason check ((status = 'closed') = (close_reason is not null)),
    constraint agent_sessions_closed_at_some_time check ((status = 'closed') = (destroyed_at is not null)),
    constraint agent_sessions_driver_is_heard check ((driver is null) = (heard_at is null))
);

create index agent_sessions_account_id_idx on agent_sessions (account_id, id desc);
create unique index agent_sessions_session_id_key on agent_sessions (session_id);
-- What may have lost its driver session.
create index agent_sessions_active_idx on agent_sessions (account_id, id) where status = 'active';
create index agent_sessions_heard_at_idx on agent_sessions (heard_at) where driver is not null;
create index agent_sessions_destroyed_at_idx on agent_sessions (destroyed_at) where status = 'closed';

-- What creates with an idempotency key came to. The row is written with the agent session, or with the refusal.
create table agent_session_creates (
    account_id uuid not null references accounts (id),
    key text not null,
    -- Null when the create was refused. The key is taken before anything else is, the agent session's row included.
    agent_session_id uuid references agent_sessions (id) on delete cascade deferrable initially deferred,
    -- The answer, word for word; null until the driver session is open, or has failed to.
    http_status smallint,
    body text,
    created_at timestamptz not null default now(),
    primary key (account_id, key)
);

create index agent_session_creates_agent_session_id_idx on agent_session_creates (agent_session_id);
create index agent_session_creates_refused_idx on agent_session_creates (created_at) where agent_session_id is null;

-- What somebody said, and what was answered. It moves queued -> running -> done, each step by compare-and-set.
create table agent_turns (
    id uuid primary key,
    agent_session_id uuid not null references agent_sessions (id) on delete cascade,
    -- The worker that has the driver session's browser, and this turn.
    worker_id uuid not null,
    status text not null default 'queued' check (status in ('queued', 'running', 'done')),
    -- The message and its approvals, sealed. Wiped when the turn is done.
    sealed_request bytea,
    -- What transcripts show of the message, and what was answered: without anything that was to be typed, and sealed all the same.
    sealed_said bytea not null,
    kind text check (kind in ('plan', 'clarify', 'refuse')),
    -- Who read the message; null when nobody had to, because it only approved.
    decomposer text check (decomposer in ('deterministic', 'claude')),
    tokens_used integer not null default 0,
    -- Whether its worker died: then nobody was there to answer.
    lost boolean not null default false,
    -- The key of its receipt, where it has one.
    receipt_key text,
    -- The channel on which the process that wrote the turn waits for its end.
    reply_channel text not null,
    request_id text not null,
    created_at timestamptz not null default now(),
    started_at timestamptz,
    done_at timestamptz,
    constraint agent_turns_done_with_a_kind check ((status = 'done') = (kind is not null))
);

create index agent_turns_agent_session_id_idx on agent_turns (agent_session_id, id);
-- What workers that died left.
create index agent_turns_open_idx on agent_turns (worker_id) where status <> 'done';

-- The steps of a plan. A step is carried out by one operation, whose id it has from the start: whatever dies, the operation's row says
-- whether it was begun.
create table agent_steps (
    id uuid primary key,
    -- Where it runs. A step that waits for approval goes over to the turn that approves it, and all behind it.
    turn_id uuid not null references agent_turns (id) on delete cascade,
    agent_session_id uuid not null,
    position integer not null,
    kind text not null check (kind in (
        'navigate', 'tap', 'type', 'press', 'select', 'scroll', 'wait', 'capture', 'extract', 'back', 'reload'
    )),
    status text not null default 'planned' check (
        status in ('planned', 'needs_approval', 'running', 'done', 'failed', 'skipped')
    ),
    -- Whether it submits data, as far as that is known.
    needs_approval boolean not null default false,
    operation_id uuid not null,
    -- What is wanted, with what is to be typed.
    sealed_wish bytea not null,
    -- The elements that were found for it, and how they were recognized.
    sealed_shown bytea,
    -- What it came to, without a capture's content, or why it failed.
    sealed_result bytea,
    created_at timestamptz not null default now()
);

create index agent_steps_turn_id_idx on agent_steps (turn_id, position);
-- A plan that waits for approval, and what a recipe is made of.
create index agent_steps_agent_session_id_idx on agent_steps (agent_session_id, turn_id, position);

-- What messages with an idempotency key came to. One that is in progress when its worker dies stays so: nobody may run it again.
create table agent_message_receipts (
    account_id uuid not null references accounts (id),
    key text not null,
    session_id uuid not null references agent_sessions (id) on delete cascade,
    -- Tells the same request from another, and nothing else of it.
    fingerprint bytea not null,
    status text not null default 'in_progress' check (status in ('in_progress', 'completed')),
    http_status smallint,
    sealed_body bytea,
    created_at timestamptz not null default now(),
    completed_at timestamptz,
    primary key (account_id, key),
    constraint agent_message_receipts_completed_whole check (
        (status = 'completed') = (http_status is not null and sealed_body is not null and completed_at is not null)
    )
);

create index agent_message_receipts_session_id_idx on agent_message_receipts (session_id);

-- What is sealed does not compress.
alter table agent_turns alter column sealed_request set storage external, alter column sealed_said set storage external;
alter table agent_steps alter column sealed_wish set storage external, alter column sealed_shown set storage external,
    alter column sealed_result set storage external;
alter table agent_message_receipts alter column sealed_body set storage external;
