-- no-transaction
-- What an account's agent sessions keep, summed from the index alone.
create index concurrently if not exists agent_sessions_stored_bytes_idx on agent_sessions (account_id) include (stored_bytes) where stored_bytes > 0;
