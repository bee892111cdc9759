-- Billing by card: what the provider has told, and of whom. The provider tells everything at least once, and in any order.

-- An event's row is written along with what it did.
create table card_events (
    id text primary key,
    type text not null,
    -- By the provider's clock.
    created_at timestamptz not null,
    received_at timestamptz not null default now()
);

-- Whoever does something about a customer holds their row first.
create table card_customers (
    id text primary key,
    -- Null as long as nothing has said whose it is.
    account_id uuid references accounts (id),
    bound_at timestamptz
);

create index card_customers_account_idx on card_customers (account_id, bound_at desc) where account_id is not null;

create table card_subscriptions (
    id text primary key,
    account_id uuid not null references accounts (id),
    customer text,
    tier text,
    status text not null,
    current_period_end timestamptz,
    cancel_at_period_end boolean not null default false,
    started_at timestamptz not null,
    -- When the event happened that says so. Of events of the same second the one of the greater rank came later.
    told_at timestamptz not null,
    told_rank smallint not null,
    -- Whether it gives its tier, and the same of the last event that said so.
    gives boolean not null default false,
    decided_at timestamptz,
    decided_rank smallint,
    -- Nothing changes it any more.
    ended boolean not null default false
);

create index card_subscriptions_account_idx on card_subscriptions (account_id, started_at desc);

-- What a customer is mailed of, once each, however often it is told.
create table card_notices (
    template text not null,
    -- An invoice, one of its attempts, or a period.
    about text not null,
    customer text,
    -- Null as long as nothing has said whose customer it is: then the mail waits for that.
    account_id uuid references accounts (id),
    details jsonb not null,
    created_at timestamptz not null default now(),
    primary key (template, about)
);

create index card_notices_waiting_idx on card_notices (customer) where account_id is null;

-- The idempotency keys that the provider was sent, whose they are, and who was to pay: repeated words are the same words.
create table card_checkout_keys (
    sent_key text primary key,
    account_id uuid not null references accounts (id),
    payer text not null,
    created_at timestamptz not null default now()
);

create index card_checkout_keys_created_at_idx on card_checkout_keys (created_at);
