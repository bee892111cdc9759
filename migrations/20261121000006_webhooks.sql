-- Where customers want to be told of events, and each time they were.

create table webhook_endpoints (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    url text not null,
    events text[] not null,
    description text,
    -- False while its owner has paused it.
    active boolean not null default true,
    -- What deliveries are signed with, AES-256-GCM.
    sealed_secret bytea not null,
    secret_prefix text not null,
    secret_made_at timestamptz not null default now(),
    -- When its owner was reminded that it is old.
    reminded_at timestamptz,
    -- The secret before, which signs as well until the grace is over.
    sealed_prev_secret bytea,
    prev_secret_prefix text,
    grace_expires_at timestamptz,
    -- When its owner was told that the grace is nearly over.
    grace_told_at timestamptz,
    -- Deliveries in a row that ended in the dead-letter state.
    consecutive_failures integer not null default 0,
    -- How many deliveries ended how: counting them would take as long as there are many.
    delivered bigint not null default 0,
    failed bigint not null default 0,
    dlq bigint not null default 0,
    last_success_at timestamptz,
    last_failure_at timestamptz,
    -- Set for good, by its owner or by too many failures.
    disabled_at timestamptz,
    -- Set when it was its owner: then it is not listed any more.
    deleted_at timestamptz,
    created_at timestamptz not null default now()
);

create index webhook_endpoints_account_id_idx on webhook_endpoints (account_id, id desc);

create table webhook_deliveries (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    endpoint_id uuid not null references webhook_endpoints (id),
    event_id uuid not null references events (id),
    event_type text not null,
    status text not null default 'pending' check (status in ('pending', 'in_flight', 'delivered', 'failed', 'dlq')),
    attempts integer not null default 0,
    -- When the next attempt is due; while one is in flight, when it counts as lost; null once there is none to come.
    next_attempt_at timestamptz default now(),
    -- Whether that has come: a walk through what is due must not pass by what waits for its next attempt.
    due boolean not null default true,
    last_response_status integer,
    last_response_excerpt text,
    last_error text,
    duration_ms bigint,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    delivered_at timestamptz
);

create index webhook_deliveries_endpoint_id_idx on webhook_deliveries (endpoint_id, id desc);
create index webhook_deliveries_event_id_idx on webhook_deliveries (event_id);
create index webhook_deliveries_status_idx on webhook_deliveries (endpoint_id, status, id desc);
-- Who has something that is due, to which endpoint, and what waits until it is.
create index webhook_deliveries_due_idx on webhook_deliveries (account_id, endpoint_id, next_attempt_at) where due;
create index webhook_deliveries_waiting_idx on webhook_deliveries (next_attempt_at)
    where not due and next_attempt_at is not null;

-- A UUID of version 7: milliseconds, then the version, then chance.
create function uuid_v7() returns uuid language sql volatile as $$
    select (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
            || '7' || substr(chance, 1, 3) || '8' || substr(chance, 18, 15))::uuid
    from (select replace(gen_random_uuid()::text, '-', '') as chance) random
$$;

-- The least that one of this moment can be.
create function uuid_v7_of(moment timestamptz) returns uuid language sql immutable as $$
    select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
$$;

-- An event's deliveries are written by the statement that writes the event, whichever it is: neither is there without the
-- other, and who is told is decided in that moment. An endpoint that is being deleted is waited for.
create function fan_out_event() returns trigger language plpgsql as $$
declare
    anybody boolean;
begin
    with subscribed as (
        select id from webhook_endpoints
        where account_id = new.account_id and active and disabled_at is null and new.type = any (events) for key share
    ), delivery as (
        insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type)
        select uuid_v7(), new.account_id, id, new.id, new.type from subscribed returning 1
    )
    select exists (select from delivery) into anybody;
    if anybody then
        perform pg_notify('jobs:webhooks', '');
    end if;
    return null;
end
$$;

create trigger events_fan_out after insert on events for each row execute function fan_out_event();
