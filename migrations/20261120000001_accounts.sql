-- Who may use the service. Later areas (teams, web sessions, MFA) hang on these two tables.

create table accounts (
    id uuid primary key,
    -- Compared without regard to case: the same mailbox must not own two accounts.
    email text not null,
    name text not null,
    status text not null default 'active' check (status in ('active', 'suspended', 'deleted')),
    tier text not null default 'free' check (tier in (
        'free', 'solo_manual', 'team_manual', 'agency_manual', 'api_starter', 'api_builder', 'api_scale', 'enterprise'
    )),
    -- An argon2id PHC string; null for an account that never set a password.
    password_hash text,
    email_verified_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- A deleted account gives its address back.
create unique index accounts_email_key on accounts (lower(email)) where status <> 'deleted';

create table api_keys (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    name text not null,
    scopes text[] not null,
    -- The first characters of the key, so that a person can tell keys apart.
    key_prefix text not null,
    -- SHA-256 of the whole key. The key has 256 random bits: a slow hash would protect nothing more.
    key_hash bytea not null,
    created_by_account_id uuid references accounts (id),
    created_at timestamptz not null default now(),
    last_used_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
);

create unique index api_keys_key_hash_key on api_keys (key_hash);
create index api_keys_account_id_idx on api_keys (account_id, id desc);

-- Secrets that every replica shares and nobody has to configure, such as the key that signs cursors.
create table server_secrets (
    name text primary key,
    value bytea not null
);
