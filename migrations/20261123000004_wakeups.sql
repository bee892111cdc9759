-- Only a statement that has just changed the session writes its intent, and only the purge that deletes a session deletes its
-- intents. To look the session up once more, and lock it, is a tenth of what an operation costs the database.
alter table intents drop constraint intents_session_id_fkey;

-- apalis has each of these twice, and every job would keep both.
drop index if exists apalis.tidx, apalis.lidx, apalis.idx, apalis.wtidx, apalis.lsidx;
