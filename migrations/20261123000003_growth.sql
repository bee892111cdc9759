-- What loops and lists look for is found by indexes, however much has gathered.

-- An account's sessions that ended, by how, and by their label. No session that lives is in them: each operation updates its
-- session's row twice, and would have to keep them. There are few of those, and the index of live sessions has them.
create index sessions_ended_by_account_idx on sessions (account_id, status, id desc) where status in ('destroyed', 'errored');
create index sessions_ended_by_label_idx on sessions (account_id, label, status, id desc)
    where status in ('destroyed', 'errored') and label is not null;

-- Whose sessions and jobs are to be ended. A heartbeat does not touch it.
create index workers_gone_idx on workers (last_seen_at) where status in ('stopped', 'lost');

-- What is under way, among all that is done.
create index if not exists jobs_under_way_idx on apalis.jobs (job_type) where status in ('Queued', 'Running');

-- The few endpoints that chains look for every some seconds. What a delivery writes to its endpoint's row changes none of these.
create index webhook_endpoints_disabled_idx on webhook_endpoints (id) where disabled_at is not null;
create index webhook_endpoints_paused_idx on webhook_endpoints (id) where not active and disabled_at is null;
create index webhook_endpoints_old_secret_idx on webhook_endpoints (secret_made_at)
    where reminded_at is null and disabled_at is null;
create index webhook_endpoints_grace_idx on webhook_endpoints (grace_expires_at)
    where grace_told_at is null and disabled_at is null;
