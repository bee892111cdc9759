-- Whether a saved proxy works is tried out by a worker, for whoever waits for it. An account has one such trial at a time, which is its
-- row: what became of one is told to its caller, and kept for nobody.

create table proxy_checks (
    account_id uuid primary key references accounts (id),
    id uuid not null unique,
    proxy_id uuid not null,
    -- The worker that is to try it.
    worker_id uuid not null,
    scheme text not null,
    host text not null,
    port integer not null,
    username text,
    -- To that worker's key; wiped when it has begun.
    sealed_secrets bytea,
    -- What it came to.
    outcome jsonb,
    -- The channel on which the process waits that wants to know.
    reply_channel text not null,
    created_at timestamptz not null default now(),
    begun_at timestamptz,
    done_at timestamptz
);

alter table proxy_checks alter column sealed_secrets set storage external;
