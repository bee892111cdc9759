-- Where agent sessions are shown by video: machines with a LiveKit server, which the deployment's staff registers.

create table mac_nodes (
    id uuid primary key,
    name text not null unique,
    livekit_url text not null,
    api_key text not null,
    -- AES-256-GCM under the deployment's key, for this node alone.
    sealed_api_secret bytea not null,
    -- Rooms at a time; null: any number.
    capacity integer check (capacity > 0),
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- On which node an agent session has its room: all who watch it meet there.
create table livekit_rooms (
    agent_session_id uuid primary key references agent_sessions (id) on delete cascade,
    mac_node_id uuid not null references mac_nodes (id),
    created_at timestamptz not null default now()
);

create index livekit_rooms_mac_node_id_idx on livekit_rooms (mac_node_id);
