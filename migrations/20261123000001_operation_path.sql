-- An operation is its own job: its worker takes it from here, and no other row says that it waits.

alter table intents add column worker_id uuid;
update intents i set worker_id = s.worker_id from sessions s where s.id = i.session_id;
alter table intents alter column worker_id set not null;

-- What waits for a worker, the oldest first.
create index intents_queued_idx on intents (worker_id, id) where status = 'queued';
