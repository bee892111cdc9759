-- no-transaction
create index concurrently if not exists webhook_deliveries_requeue_idx
    on webhook_deliveries (requeue_id, status) where requeue_id is not null;
