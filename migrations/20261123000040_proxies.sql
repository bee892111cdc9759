-- Saved proxies: the ways out that customers bring, and what of them a live session leaves through.

create table proxies (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    label text not null,
    scheme text not null check (scheme in ('socks5', 'http', 'wireguard', 'openvpn')),
    -- Where it is; of a tunnel, where its configuration says that the server is.
    host text not null,
    port integer not null check (port between 1 and 65535),
    username text,
    -- AES-256-GCM under the deployment's key, each for this proxy and this column alone.
    sealed_password bytea,
    sealed_config bytea,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    -- When its account was deleted: since then nobody uses it, and it is removed soon.
    lost_at timestamptz,
    constraint proxies_tunnels_have_a_config check ((scheme in ('wireguard', 'openvpn')) = (sealed_config is not null))
);

create index proxies_account_id_idx on proxies (account_id, id desc);
create index proxies_lost_at_idx on proxies (lost_at) where lost_at is not null;

-- What is sealed does not compress.
alter table proxies alter column sealed_config set storage external;

-- What a session leaves through, as it was when the session was made: a proxy that is changed changes no session. The secrets are
-- sealed to the one worker that has the session's browser.
create table session_proxies (
    session_id uuid primary key references sessions (id) on delete cascade,
    scheme text not null,
    host text not null,
    port integer not null,
    username text,
    sealed_secrets bytea not null
);

alter table session_proxies alter column sealed_secrets set storage external;

-- The proxy may be deleted when the session has ended: the column then says which it was.
alter table sessions add column proxy_id uuid;
create index sessions_live_by_proxy_idx on sessions (proxy_id) where live and proxy_id is not null;

alter table agent_sessions add column proxy_id uuid;

-- The secrets go with the session, whatever ends it.
create function forget_session_proxy() returns trigger language plpgsql as $$
begin
    delete from session_proxies where session_id = new.id;
    return null;
end
$$;

create trigger sessions_forget_proxy after update of status on sessions for each row
when (new.proxy_id is not null and new.status in ('destroyed', 'errored'))
execute function forget_session_proxy();
