-- no-transaction
-- The audit log filters by the resource.
create index concurrently if not exists audit_log_target_idx on audit_log (account_id, target_resource_id, id desc)
    where target_resource_id is not null;
