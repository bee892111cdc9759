-- no-transaction
-- The deliveries of an account, to all its endpoints.
create index concurrently if not exists webhook_deliveries_account_id_idx on webhook_deliveries (account_id, id desc);
