-- What customers let models do for them: with keys of their own at model providers, or with the deployment's.

create table byok_keys (
    account_id uuid not null references accounts (id),
    provider text not null check (provider in ('anthropic', 'openai')),
    -- AES-256-GCM under the deployment's key.
    sealed_key bytea not null,
    set_at timestamptz not null default now(),
    -- When its owner was reminded that it is old.
    reminded_at timestamptz,
    -- When its account was deleted: since then nobody uses it, and it is removed soon.
    lost_at timestamptz,
    primary key (account_id, provider)
);

-- Who is to be reminded, and what is to be removed.
create index byok_keys_set_at_idx on byok_keys (set_at) where reminded_at is null and lost_at is null;
create index byok_keys_lost_at_idx on byok_keys (lost_at) where lost_at is not null;

-- Who lets the deployment's own key be used for them: nobody does who has no row.
create table bundled_llm_consents (
    account_id uuid primary key references accounts (id),
    given_at timestamptz not null default now()
);
