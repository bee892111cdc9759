-- no-transaction
-- The audit log filters by the acting account, which is mostly the account itself: those rows are found by the account.
create index concurrently if not exists audit_log_other_actor_idx on audit_log (account_id, actor_account_id, id desc)
    where actor_account_id <> account_id;
