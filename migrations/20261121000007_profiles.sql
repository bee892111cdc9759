-- What a phone remembers from one session to the next.

create table profiles (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    name text not null,
    archetype text not null,
    -- What its stores are sealed with, sealed with the deployment's key.
    sealed_key bytea not null,
    -- What it holds; null before anything was kept.
    store_id uuid,
    size_bytes bigint not null default 0,
    -- How many sessions have had it, and which of them the store is of: of two that write, the later one wins.
    generation bigint not null default 0,
    stored_generation bigint not null default 0,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    last_used_at timestamptz,
    deleted_at timestamptz
);

create index profiles_account_id_idx on profiles (account_id, id desc);
create index profiles_deleted_at_idx on profiles (deleted_at) where deleted_at is not null;
create index profiles_store_id_idx on profiles (store_id);

-- A store is written once and never changed. One that nobody refers to is removed.
create table profile_stores (
    id uuid primary key,
    -- Whose key it is sealed with. That profile may be gone.
    profile_id uuid not null,
    size_bytes bigint not null default 0,
    created_at timestamptz not null default now(),
    -- When it may be removed: some time after its writing began, unless a profile or a snapshot refers to it by then.
    removable_at timestamptz default now() + interval '1 hour'
);

alter table profiles add constraint profiles_store_id_fkey foreign key (store_id) references profile_stores (id);
create index profile_stores_profile_id_idx on profile_stores (profile_id);
create index profile_stores_removable_at_idx on profile_stores (removable_at) where removable_at is not null;

-- The bytes of stores, where no object store is configured.
create table profile_store_chunks (
    store_id uuid not null references profile_stores (id) on delete cascade,
    place integer not null,
    bytes bytea not null,
    primary key (store_id, place)
);

-- They are compressed and sealed already.
alter table profile_store_chunks alter column bytes set storage external;

create table profile_snapshots (
    id uuid primary key,
    profile_id uuid not null references profiles (id) on delete cascade,
    account_id uuid not null references accounts (id),
    store_id uuid references profile_stores (id),
    label text,
    size_bytes bigint not null,
    created_at timestamptz not null default now()
);

create index profile_snapshots_profile_id_idx on profile_snapshots (profile_id, id desc);
create index profile_snapshots_store_id_idx on profile_snapshots (store_id);

alter table sessions add column profile_id uuid references profiles (id) on delete set null;
alter table sessions add column profile_generation bigint;
-- Whether its worker has the profile's state in hands that is not kept yet.
alter table sessions add column profile_in_hand boolean not null default false;

-- One live session a profile.
create unique index sessions_live_by_profile_key on sessions (profile_id) where status in ('creating', 'ready', 'busy');
-- For purges, which forget a profile in all of its sessions.
create index sessions_profile_id_idx on sessions (profile_id) where profile_id is not null;
create index sessions_profile_in_hand_idx on sessions (profile_id) where profile_in_hand;
