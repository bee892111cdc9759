-- Draining: when what still lives on a worker that drains is ended; null when that is waited for however long it takes.
alter table workers add column drain_by timestamptz;

-- A worker that drains has no free slots any more. The statement that says so waits for the creates that have one of them in their
-- hands, and those that looked before find it gone: once it is committed, no session is placed on that worker, and one that has
-- none has none for good. Creates wait for no slot and for no worker's row, and so for nothing that waits for them here.
create function remove_free_slots() returns trigger language plpgsql as $$
begin
    delete from worker_slots where worker_id = new.id and session_id is null;
    return null;
end
$$;

create trigger workers_remove_free_slots after update of status on workers for each row
when (old.status = 'active' and new.status = 'draining') execute function remove_free_slots();
