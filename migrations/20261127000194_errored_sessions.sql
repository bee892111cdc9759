-- no-transaction
-- Few among many ended sessions, and what staff look for.
create index concurrently if not exists sessions_errored_idx on sessions (id desc) where not live and ended = 'errored';
