-- no-transaction
-- The list of sessions filters by it. Operations do not update an index of ended sessions.
create index concurrently if not exists sessions_ended_by_archetype_idx on sessions (account_id, archetype, id desc) where not live;
