-- no-transaction
-- The same of what webhooks are signed with.
create index concurrently if not exists webhook_endpoints_oldest_secret_idx on webhook_endpoints (secret_made_at) where disabled_at is null;
