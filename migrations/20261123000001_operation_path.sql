-- An operation is its own job: its worker takes it from here, and no other row says that it waits.

alter table intents add column worker_id uuid;
update intents i set worker_id = s.worker_id from sessions s where s.id = i.session_id;
alter table intents alter column worker_id set not null;

-- What waits for a worker, the oldest first.
create index intents_queued_idx on intents (worker_id, id) where status = 'queued';

-- Only a statement that has just changed the session writes its intent, and only the purge that deletes a session deletes its
-- intents. To look the session up once more, and lock it, is a tenth of what an operation costs the database.
alter table intents drop constraint intents_session_id_fkey;
