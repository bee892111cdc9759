-- Tiers that are paid for once, with a crypto currency. A row is written before the processor is asked.
create table crypto_orders (
    id uuid primary key,
    account_id uuid not null references accounts (id),
    -- The caller's, which is good for ever.
    idempotency_key text,
    product text not null,
    price_cents integer not null check (price_cents > 0),
    price_currency text not null,
    pay_currency text not null,
    -- What the processor has said. Amounts are texts, as they were written: no amount of money is rounded.
    payment_id text,
    pay_address text,
    pay_amount text,
    -- When the processor was asked, and what the caller was answered, word for word. Without an answer nobody knows of the order.
    asked_at timestamptz not null default now(),
    answer text,
    status text not null default 'pending' check (status in ('pending', 'paid', 'failed')),
    -- Why it failed.
    reason text check (reason in ('ipn', 'expired', 'swept')),
    -- By which payment it was paid: what comes later by another one is money too much.
    paid_by text,
    ended_at timestamptz,
    -- Until when what was paid lasts, and when it was taken back.
    paid_until timestamptz,
    lapsed_at timestamptz,
    -- What staff should look at, and the payment that is the reason.
    flag text,
    flagged_by text,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    unique (account_id, idempotency_key),
    check ((status = 'pending') = (ended_at is null)),
    check ((status = 'failed') = (reason is not null)),
    check ((status = 'paid') = (paid_until is not null))
);

create index crypto_orders_account_idx on crypto_orders (account_id, id desc);
create index crypto_orders_pending_idx on crypto_orders (created_at) where status = 'pending';
create index crypto_orders_lapsing_idx on crypto_orders (paid_until) where lapsed_at is null and paid_until is not null;
create index crypto_orders_flagged_idx on crypto_orders (id desc) where flag is not null;
