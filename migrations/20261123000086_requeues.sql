-- Dead letters that staff have sent once more, many at a time: what is to be done, and how far that has come.

create table delivery_requeues (
    id uuid primary key,
    endpoint_id uuid references webhook_endpoints (id),
    account_id uuid not null references accounts (id),
    -- Only what was made since; null for all.
    since timestamptz,
    -- What waited to be sent when it was asked for.
    total bigint not null,
    requeued bigint not null default 0,
    -- Up to which delivery everything was looked at.
    after uuid,
    created_at timestamptz not null default now(),
    done_at timestamptz
);

create index delivery_requeues_open_idx on delivery_requeues (id) where done_at is null;
