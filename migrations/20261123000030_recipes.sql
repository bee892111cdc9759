-- Recipes: what was done in an agent session, step by step, kept for as long as its maker wants.

create table recipes (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    -- What it was made of. That one goes with its term, and the recipe stays.
    agent_session_id uuid references agent_sessions (id) on delete set null,
    label text not null,
    description text not null,
    intent_count integer not null,
    -- The steps, with all that was typed.
    sealed_steps bytea not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

create index recipes_account_id_idx on recipes (account_id, id desc);
-- Whoever deletes an agent session looks for its recipes.
create index recipes_agent_session_id_idx on recipes (agent_session_id) where agent_session_id is not null;

-- What is sealed does not compress.
alter table recipes alter column sealed_steps set storage external;
