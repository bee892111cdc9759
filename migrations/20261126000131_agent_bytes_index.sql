-- no-transaction
-- What an account's agent sessions keep, summed from the index alone.
create index concurrently if not exists agent_sessions_kept_bytes_idx on agent_sessions (account_id) include (kept_bytes) where kept_bytes > 0;
