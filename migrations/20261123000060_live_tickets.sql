-- Who may watch a session's browser, or act in it. A ticket is good once and for a moment; its row then says by what credential its
-- viewer was let in, and is looked at for as long as they are there.

create table live_tickets (
    id uuid primary key default uuid_v7(),
    -- SHA-256 of the ticket, which has 256 random bits.
    ticket_hash bytea not null constraint live_tickets_ticket_hash_key unique,
    session_id uuid not null references sessions (id) on delete cascade,
    role text not null check (role in ('viewer', 'controller')),
    client_id text,
    -- Who asked for it: another account than the session's is a member of its team.
    acting_account_id uuid not null references accounts (id) on delete cascade,
    -- By what, which is one of these.
    api_key_id uuid references api_keys (id) on delete cascade,
    web_session_id uuid references web_sessions (id) on delete cascade,
    oauth_client_id uuid references oauth_clients (id) on delete cascade,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    used_at timestamptz,
    constraint live_tickets_have_a_credential check (num_nonnulls(api_key_id, web_session_id, oauth_client_id) = 1)
);

create index live_tickets_session_id_idx on live_tickets (session_id);
create index live_tickets_expires_at_idx on live_tickets (expires_at);
create index live_tickets_api_key_id_idx on live_tickets (api_key_id) where api_key_id is not null;
create index live_tickets_web_session_id_idx on live_tickets (web_session_id) where web_session_id is not null;
create index live_tickets_oauth_client_id_idx on live_tickets (oauth_client_id) where oauth_client_id is not null;
