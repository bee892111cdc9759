-- By what a person or a program proves who it is.

-- Addresses are compared in one spelling: Unicode's compatibility form, lower case. The application makes it, because
-- the database's lower() depends on its locale.
alter table accounts add column email_key text;
update accounts set email_key = lower(email);
alter table accounts alter column email_key set not null;
drop index accounts_email_key;
-- A deleted account gives its address back.
create unique index accounts_email_key on accounts (email_key) where status <> 'deleted';

-- Signed-in devices. A refresh gives the row another token.
create table web_sessions (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    -- SHA-256 of the token, which has 256 random bits.
    token_hash bytea not null,
    created_at timestamptz not null default now(),
    last_used_at timestamptz not null default now(),
    expires_at timestamptz not null,
    ip_address text,
    user_agent text,
    -- The last second-factor proof.
    mfa_satisfied_at timestamptz,
    revoked_at timestamptz
);

create unique index web_sessions_token_hash_key on web_sessions (token_hash);
create index web_sessions_live_idx on web_sessions (account_id, id desc) where revoked_at is null;
create index web_sessions_expires_at_idx on web_sessions (expires_at);

-- Links in mails. One of each purpose is good at a time: whoever asks again makes the one before worthless.
create table mail_links (
    account_id uuid not null references accounts (id),
    purpose text not null check (purpose in ('verify_email', 'magic_link', 'reset_password', 'confirm_sign_in')),
    -- SHA-256 of the token.
    token_hash bytea not null,
    -- What the link is about, where its purpose does not say it all: an identity to be linked.
    subject jsonb,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    primary key (account_id, purpose)
);

create unique index mail_links_token_hash_key on mail_links (token_hash);
create index mail_links_expires_at_idx on mail_links (expires_at);

-- Second factors. Pending until the first code was verified.
create table mfa_factors (
    account_id uuid primary key references accounts (id),
    -- The TOTP secret, AES-256-GCM.
    sealed_secret bytea not null,
    -- One salt for a batch of recovery codes, so that a wrong guess costs one hash and not ten.
    recovery_salt bytea,
    created_at timestamptz not null default now(),
    enrolled_at timestamptz,
    last_used_at timestamptz,
    -- Wrong guesses of the present window.
    wrong_guesses integer not null default 0,
    guessing_since timestamptz
);

create table recovery_codes (
    account_id uuid not null references mfa_factors (account_id) on delete cascade,
    -- argon2id.
    code_hash bytea not null,
    used_at timestamptz,
    primary key (account_id, code_hash)
);

-- Time steps whose code was accepted: none is accepted twice (RFC 6238, section 5.2).
create table totp_steps (
    account_id uuid not null references mfa_factors (account_id) on delete cascade,
    step bigint not null,
    primary key (account_id, step)
);

-- Sign-ins that wait for their second factor.
create table mfa_challenges (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    -- SHA-256 of the token.
    token_hash bytea not null,
    -- Only from there it may be met.
    ip_address text,
    wrong_guesses integer not null default 0,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    consumed_at timestamptz
);

create unique index mfa_challenges_token_hash_key on mfa_challenges (token_hash);
create index mfa_challenges_account_id_idx on mfa_challenges (account_id);
create index mfa_challenges_expires_at_idx on mfa_challenges (expires_at);

-- What kind of credential a key is. A device's works on the free tier too, for some routes.
alter table api_keys add column kind text not null default 'customer' check (kind in ('customer', 'device'));
alter table api_keys add column rotated_from uuid references api_keys (id);
-- A key is rotated once.
create unique index api_keys_rotated_from_key on api_keys (rotated_from);

-- Desktop apps that ask for a credential. The key's row is written when a person agrees, and expires unless the app comes
-- for it; its secret is made when it does, so that nobody ever stores it.
create table device_authorizations (
    id uuid primary key,
    -- SHA-256 of what only the app knows.
    code_hash bytea not null,
    -- Without its hyphen.
    user_code text not null,
    -- The app's nonce: whoever agrees echoes it.
    state text not null,
    client_label text,
    ip_address text,
    status text not null default 'pending' check (status in ('pending', 'bound', 'exchanged')),
    api_key_id uuid references api_keys (id),
    created_at timestamptz not null default now(),
    -- Until when it may be bound and, once it is, until when the app may come for its key.
    expires_at timestamptz not null
);

create unique index device_authorizations_code_hash_key on device_authorizations (code_hash);
create unique index device_authorizations_user_code_key on device_authorizations (user_code) where status = 'pending';
create index device_authorizations_expires_at_idx on device_authorizations (expires_at);

-- OAuth clients (RFC 6749, section 4.4) and the tokens they got.
create table oauth_clients (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    name text not null,
    scopes text[] not null,
    -- SHA-256 of the secret, which has 256 random bits.
    secret_hash bytea not null,
    created_by_account_id uuid references accounts (id),
    created_at timestamptz not null default now(),
    revoked_at timestamptz
);

create index oauth_clients_account_id_idx on oauth_clients (account_id, id desc);

create table oauth_tokens (
    token_hash bytea primary key,
    client_id uuid not null references oauth_clients (id),
    scopes text[] not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);

create index oauth_tokens_expires_at_idx on oauth_tokens (expires_at);

-- Accounts at identity providers that sign in here.
create table identities (
    provider text not null,
    -- What the provider calls the person, for ever.
    subject text not null,
    account_id uuid not null references accounts (id),
    created_at timestamptz not null default now(),
    primary key (provider, subject)
);

create index identities_account_id_idx on identities (account_id);

-- Sign-ins on their way through an identity provider.
create table identity_flows (
    -- SHA-256 of the state that the provider hands back.
    state_hash bytea primary key,
    provider text not null,
    nonce text not null,
    pkce_verifier text not null,
    -- SHA-256 of a cookie: the browser that comes back has to be the one that went.
    browser_hash bytea not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null
);

create index identity_flows_expires_at_idx on identity_flows (expires_at);
