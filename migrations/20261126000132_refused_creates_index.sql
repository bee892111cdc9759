-- no-transaction
-- The refused creates of an account, of which it keeps the newest.
create index concurrently if not exists agent_session_creates_refused_of_idx on agent_session_creates (account_id, created_at) where agent_session_id is null;
