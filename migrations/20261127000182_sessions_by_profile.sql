-- no-transaction
-- The list of sessions filters by it. Operations do not update an index of ended sessions.
create index concurrently if not exists sessions_ended_by_profile_idx on sessions (account_id, profile_id, id desc) where not live and profile_id is not null;
