-- Why staff should look at a crypto order, for each payment of it: what one payment raises, another one does not take away. The order
-- itself has the newest, which is what is listed.
create table crypto_order_flags (
    order_id uuid not null references crypto_orders (id) on delete cascade,
    payment_id text not null,
    why text not null,
    raised_at timestamptz not null default now(),
    primary key (order_id, payment_id)
);

insert into crypto_order_flags (order_id, payment_id, why, raised_at)
select id, flagged_by, flag, coalesce(ended_at, created_at) from crypto_orders where flag is not null and flagged_by is not null;
