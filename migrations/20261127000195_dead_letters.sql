-- no-transaction
-- The dead letters of all endpoints.
create index concurrently if not exists webhook_deliveries_dead_idx on webhook_deliveries (id desc) where status = 'dlq';
