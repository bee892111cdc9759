-- no-transaction
-- Most deliveries are delivered; the others are found without reading those.
create index concurrently if not exists webhook_deliveries_undelivered_idx on webhook_deliveries (account_id, status, id desc)
    where status <> 'delivered';
