-- Addresses by which anybody may watch a session who has them, without an account. Each gives out tickets, whose viewers are let in by it
-- and by whoever made it.

create table live_links (
    id uuid primary key default uuid_v7(),
    -- SHA-256 of what stands in the address, which has 256 random bits.
    secret_hash bytea not null constraint live_links_secret_hash_key unique,
    session_id uuid not null references sessions (id) on delete cascade,
    -- Who made it, and by what, as for tickets.
    acting_account_id uuid not null references accounts (id) on delete cascade,
    api_key_id uuid references api_keys (id) on delete cascade,
    web_session_id uuid references web_sessions (id) on delete cascade,
    oauth_client_id uuid references oauth_clients (id) on delete cascade,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    revoked_at timestamptz,
    constraint live_links_have_a_credential check (num_nonnulls(api_key_id, web_session_id, oauth_client_id) = 1)
);

create index live_links_session_id_idx on live_links (session_id, id desc);
create index live_links_expires_at_idx on live_links (expires_at);
create index live_links_acting_account_id_idx on live_links (acting_account_id);
create index live_links_api_key_id_idx on live_links (api_key_id) where api_key_id is not null;
create index live_links_web_session_id_idx on live_links (web_session_id) where web_session_id is not null;
create index live_links_oauth_client_id_idx on live_links (oauth_client_id) where oauth_client_id is not null;

alter table live_tickets add column link_id uuid references live_links (id) on delete cascade;
create index live_tickets_link_id_idx on live_tickets (link_id) where link_id is not null;
