-- Whether there is room on the disk of a worker's browsers, as it said with its last heartbeat. Without it none starts there: such a worker
-- would fail every create, and so always be the one with the most free slots.
alter table workers add column has_room boolean not null default true;

create or replace function take_slot(session uuid, packed boolean, lease double precision) returns uuid language plpgsql as $$
declare
    owner uuid;
begin
    if packed then
        update worker_slots set session_id = session where (worker_id, number) = (
            select f.worker_id, f.number from worker_slots f join workers w on w.id = f.worker_id
            where f.session_id is null and w.status = 'active' and w.driver <> 'none' and w.has_room
              and w.last_seen_at > now() - make_interval(secs => lease)
            order by f.worker_id, f.number limit 1 for update of f skip locked
        ) returning worker_id into owner;
    else
        update worker_slots set session_id = session where (worker_id, number) = (
            select f.worker_id, f.number from worker_slots f join workers w on w.id = f.worker_id
            where f.session_id is null and w.status = 'active' and w.driver <> 'none' and w.has_room
              and w.last_seen_at > now() - make_interval(secs => lease)
            order by f.number desc, f.worker_id limit 1 for update of f skip locked
        ) returning worker_id into owner;
    end if;
    return owner;
end
$$;
