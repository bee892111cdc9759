-- One action's rows of an account's log, the newest first: a rare one among a million others.
create index audit_log_action_idx on audit_log (account_id, action, id desc);
