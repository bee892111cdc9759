-- no-transaction
-- Whoever scrapes the metrics asks how old the oldest key is, whether its owner was reminded or not.
create index concurrently if not exists byok_keys_oldest_idx on byok_keys (set_at) where lost_at is null;
