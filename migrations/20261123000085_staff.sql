-- Staff: whoever runs the service, who acts on everybody's accounts through credentials of their own, and what they did.

create table staff_credentials (
    id uuid primary key,
    name text not null,
    key_prefix text not null,
    key_hash bytea not null constraint staff_credentials_key_hash_key unique,
    created_at timestamptz not null default now(),
    last_used_at timestamptz,
    revoked_at timestamptz
);

-- Which credential did what, and why. A customer's own log says that staff acted, but not who of them.
create table staff_log (
    id uuid primary key,
    credential_id uuid not null references staff_credentials (id),
    operation text not null,
    account_id uuid references accounts (id),
    target_resource_id text,
    reason text not null,
    payload jsonb not null,
    created_at timestamptz not null default clock_timestamp()
);

create index staff_log_account_idx on staff_log (account_id, id desc) where account_id is not null;

create function staff_log_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the log of what staff did can only be added to';
end
$$;

create trigger staff_log_append_only before update or delete or truncate on staff_log
for each statement execute function staff_log_is_append_only();
