-- Recordings of sessions, and public links to their traces.

-- Origin of an operation, written by its claim, and the page's address at its end. The version before leaves them null. Plain text
-- without a domain: a column of a domain with a constraint rewrites the table, and the program is the only writer.
alter table intents add column actor_type text, add column actor_id text, add column url text;

-- Whether the session is recorded. The version before records none.
alter table sessions add column record text not null default 'off';

-- There is no reference to the session: the bytes of segments may lie in a bucket, so that a recording is removed by its own sweep
-- and not by the deletion of another row.
create table recordings (
    session_id uuid primary key,
    account_id uuid not null,
    -- The key of its segments, sealed with the deployment's key or with one in `server_secrets`.
    sealed_key bytea not null,
    -- Of its segments, sealed.
    bytes bigint not null default 0,
    operation_count integer not null default 0,
    last_url text,
    created_at timestamptz not null default now(),
    -- Time of its last segment.
    updated_at timestamptz not null default now(),
    -- Null while the session is recorded, and after its worker died.
    ended_at timestamptz,
    -- A recording with this time has been deleted: it is not shown, and a sweep removes its segments.
    removable_at timestamptz
);

create index recordings_account_id_idx on recordings (account_id, created_at) where removable_at is null;
create index recordings_updated_at_idx on recordings (updated_at) where removable_at is null;
create index recordings_removable_at_idx on recordings (removable_at) where removable_at is not null;

create table recording_segments (
    session_id uuid not null references recordings (session_id) on delete cascade,
    -- `events`, or `pictures` with the snapshots. Their numbers are those of one sequence, so that ranges of the two kinds overlap.
    kind text not null constraint recording_segments_kind_check check (kind in ('events', 'pictures')),
    first_seq bigint not null,
    last_seq bigint not null,
    -- Operations that have a picture in the segment.
    operations uuid[] not null default '{}',
    -- Null if the segment is in a bucket.
    content bytea,
    -- False while the segment is being written to a bucket. Its row exists before its object and after it.
    is_stored boolean not null,
    primary key (session_id, kind, first_seq)
);

-- Already compressed and sealed.
alter table recording_segments alter column content set storage external;

create table trace_links (
    id uuid primary key default uuid_v7(),
    -- SHA-256 of the secret in the address, which has 256 random bits.
    secret_hash bytea not null constraint trace_links_secret_hash_key unique,
    session_id uuid not null references sessions (id) on delete cascade,
    -- The link depends on its creator, as a link to a live view does.
    acting_account_id uuid not null references accounts (id) on delete cascade,
    api_key_id uuid references api_keys (id) on delete cascade,
    web_session_id uuid references web_sessions (id) on delete cascade,
    oauth_client_id uuid references oauth_clients (id) on delete cascade,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    revoked_at timestamptz,
    constraint trace_links_have_a_credential check (num_nonnulls(api_key_id, web_session_id, oauth_client_id) = 1)
);

create index trace_links_session_id_idx on trace_links (session_id, id desc);
create index trace_links_expires_at_idx on trace_links (expires_at);
create index trace_links_acting_account_id_idx on trace_links (acting_account_id);
create index trace_links_api_key_id_idx on trace_links (api_key_id) where api_key_id is not null;
create index trace_links_web_session_id_idx on trace_links (web_session_id) where web_session_id is not null;
create index trace_links_oauth_client_id_idx on trace_links (oauth_client_id) where oauth_client_id is not null;
