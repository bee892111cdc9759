-- What happened, written in the transaction that made it happen.

-- Events for webhooks: an outbox.
create table events (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    type text not null,
    data jsonb not null,
    created_at timestamptz not null default now()
);

create index events_account_id_idx on events (account_id, id desc);

create table audit_log (
    id uuid primary key,
    -- The account whose log holds the row.
    account_id uuid not null references accounts (id),
    actor_type text not null check (actor_type in ('customer', 'system', 'staff')),
    actor_account_id uuid references accounts (id),
    actor_key_id uuid references api_keys (id),
    action text not null,
    target_resource_id text,
    payload jsonb not null default '{}',
    ip_address text,
    user_agent text,
    created_at timestamptz not null default now()
);

create index audit_log_account_id_idx on audit_log (account_id, id desc);

-- Append-only: a record that can be edited proves nothing.
create function audit_log_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only';
end
$$;

create trigger audit_log_append_only before update or delete or truncate on audit_log
for each statement execute function audit_log_is_append_only();
