-- no-transaction
-- The list of sessions filters by it. Operations do not update an index of ended sessions.
create index concurrently if not exists sessions_ended_by_api_key_idx on sessions (account_id, api_key_id, id desc) where not live and api_key_id is not null;
