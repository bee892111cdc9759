-- One action's rows of an account's log, the newest first: a rare one among a million others.
create index audit_log_action_idx on audit_log (account_id, action, id desc);

-- A row's time is that of its writing, as its id's is, and not of the beginning of a transaction that may have waited for
-- others since: the newest first is then the latest first.
alter table audit_log alter column created_at set default clock_timestamp();

-- Readers rely on it.
alter table audit_log add constraint audit_log_payload_is_an_object check (jsonb_typeof(payload) = 'object');
