-- The progress of a drain: when it began, and the live sessions at that moment. Null while the worker does not drain.
alter table workers
    add column drain_began_at timestamptz,
    add column drain_sessions bigint;
