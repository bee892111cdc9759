-- The status page: what was measured, what staff tell of it, and who is mailed.

-- What was found of a component on a day of UTC, a sample a minute.
create table status_days (
    day date not null,
    component text not null,
    samples integer not null default 0,
    -- Samples in which the component was so; in all others it was operational.
    degraded integer not null default 0,
    partial integer not null default 0,
    major integer not null default 0,
    primary key (day, component)
);

-- How api processes did lately, by their own word.
create table status_reports (
    process uuid primary key,
    answered bigint not null,
    failed bigint not null,
    seen_at timestamptz not null default now()
);

create table incidents (
    id uuid primary key,
    title text not null,
    impact text not null check (impact in ('minor', 'major', 'critical')),
    status text not null check (status in ('investigating', 'identified', 'monitoring', 'resolved')),
    components text[] not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    resolved_at timestamptz
);

create index incidents_open_idx on incidents (id) where status <> 'resolved';

create table incident_updates (
    id uuid primary key,
    incident_id uuid not null references incidents (id),
    status text not null,
    message text not null,
    created_at timestamptz not null default now()
);

create index incident_updates_incident_id_idx on incident_updates (incident_id, id);

-- Addresses that want to be told. One that wants it no more has no row.
create table status_subscribers (
    id uuid primary key,
    email text not null,
    email_key text not null constraint status_subscribers_email_key_key unique,
    -- Of the link that confirms, which is good for as long; null when there is none.
    token_hash bytea constraint status_subscribers_token_hash_key unique,
    confirm_until timestamptz not null,
    -- The last mail with such a link, and when it was written.
    asked_by uuid,
    asked_at timestamptz,
    confirmed_at timestamptz,
    created_at timestamptz not null default now()
);

create index status_subscribers_confirmed_idx on status_subscribers (id) where confirmed_at is not null;
create index status_subscribers_unconfirmed_idx on status_subscribers (confirm_until) where confirmed_at is null;

-- What all subscribers are to be mailed, and up to which of them that was done.
create table incident_notices (
    id uuid primary key,
    incident_id uuid not null references incidents (id),
    kind text not null check (kind in ('posted', 'updated', 'resolved')),
    -- What is told; of an update that waits, the newest when it begins.
    update_id uuid references incident_updates (id),
    after uuid,
    created_at timestamptz not null default now(),
    begun_at timestamptz,
    done_at timestamptz
);

create index incident_notices_open_idx on incident_notices (incident_id, id) where done_at is null;
create index incident_notices_updated_idx on incident_notices (incident_id, done_at) where kind = 'updated';
-- However many updates are written meanwhile, one notice waits.
create unique index incident_notices_waiting_key on incident_notices (incident_id)
    where kind = 'updated' and begun_at is null and done_at is null;

alter table emails add column subscriber_id uuid references status_subscribers (id) on delete cascade;
alter table emails drop constraint emails_has_a_recipient;
alter table emails add constraint emails_has_a_recipient
    check (account_id is not null or email_key is not null or invite_id is not null or subscriber_id is not null);
create index emails_subscriber_id_idx on emails (subscriber_id) where subscriber_id is not null;
