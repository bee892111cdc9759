-- Where sessions are placed: a row for each session that a worker may have. A create takes one that is free and that nobody
-- else is about to take, and so waits for no other create; the end of a session frees it, whatever ends it.

create table worker_slots (
    worker_id uuid not null references workers (id) on delete cascade,
    -- 1 to the worker's max_sessions.
    number integer not null,
    -- Who has it; null when nobody has.
    session_id uuid,
    primary key (worker_id, number)
);

-- The free slot with the highest number is one of the worker that has most of them, and that of the lowest worker fills one
-- worker after the other.
create index worker_slots_spread_idx on worker_slots (number desc, worker_id) where session_id is null;
create index worker_slots_pack_idx on worker_slots (worker_id, number) where session_id is null;
-- A session has one slot, by which its end finds it.
create unique index worker_slots_session_id_key on worker_slots (session_id) where session_id is not null;

-- Whoever lives has slots from now on, and its sessions have theirs.
insert into worker_slots (worker_id, number, session_id)
select w.id, number, s.id
from workers w
cross join lateral generate_series(1, least(w.max_sessions, 10000)) number
left join (
    select id, worker_id, row_number() over (partition by worker_id order by id) as place
    from sessions where status in ('creating', 'ready', 'busy')
) s on s.worker_id = w.id and s.place = least(w.max_sessions, 10000) + 1 - number
where w.status in ('active', 'draining');

-- Takes a free slot for a session, of a worker that was heard of during its lease, which is in seconds: of one that is used
-- already if slots are packed, and otherwise of the one with most that are free. Answers whose it is; null when there is none.
-- What somebody else has in his hands is passed over: two creates do not wait for each other.
create function take_slot(session uuid, packed boolean, lease double precision) returns uuid language plpgsql as $$
declare
    owner uuid;
begin
    if packed then
        update worker_slots set session_id = session where (worker_id, number) = (
            select f.worker_id, f.number from worker_slots f join workers w on w.id = f.worker_id
            where f.session_id is null and w.status = 'active' and w.driver <> 'none'
              and w.last_seen_at > now() - make_interval(secs => lease)
            order by f.worker_id, f.number limit 1 for update of f skip locked
        ) returning worker_id into owner;
    else
        update worker_slots set session_id = session where (worker_id, number) = (
            select f.worker_id, f.number from worker_slots f join workers w on w.id = f.worker_id
            where f.session_id is null and w.status = 'active' and w.driver <> 'none'
              and w.last_seen_at > now() - make_interval(secs => lease)
            order by f.number desc, f.worker_id limit 1 for update of f skip locked
        ) returning worker_id into owner;
    end if;
    return owner;
end
$$;

create function free_slot() returns trigger language plpgsql as $$
begin
    update worker_slots set session_id = null where session_id = new.id;
    return null;
end
$$;

create trigger sessions_free_slot after update of status on sessions for each row
when (old.status in ('creating', 'ready', 'busy') and new.status in ('destroyed', 'errored'))
execute function free_slot();

-- Nobody is to look at slots that nobody can take. One that is in somebody's hands in this moment is left for the worker's
-- row to go with: sessions end in any order, so that waiting for them could be waiting for each other.
create function remove_slots() returns trigger language plpgsql as $$
begin
    delete from worker_slots where (worker_id, number) in (
        select worker_id, number from worker_slots where worker_id = new.id for update skip locked
    );
    return null;
end
$$;

create trigger workers_remove_slots after update of status on workers for each row
when (new.status in ('stopped', 'lost')) execute function remove_slots();

-- Locks the row of an account that may act, and then counts its live sessions: nobody else begins one until the transaction
-- ends. It is volatile, so that what it counts is what there is when it has the lock, and not when it began to wait.
create function count_sessions_locked(account uuid) returns table (tier text, live bigint) volatile rows 1 language plpgsql as $$
begin
    select a.tier into tier from accounts a where a.id = account and a.status = 'active' for no key update;
    if found then
        select count(*) into live from sessions s
        where s.account_id = account and s.status in ('creating', 'ready', 'busy');
        return next;
    end if;
end
$$;
