-- The bytes that agent sessions keep count against a quota per account. The triggers below see every statement that writes turns, steps,
-- receipts and the answers of creates, so that no statement can forget some. agent_sessions.kept_bytes goes on to count what it
-- did: without plans, and without the rows of lost turns.
--
-- Rows from before count as nothing, and go with their agent sessions within 30 days: to count them would read all of them.
--
-- Each turn, step and receipt counts 256 bytes for its row, so that very many small ones are not free.

alter table agent_sessions add column stored_bytes bigint not null default 0;

-- What a step counts. Its result counts from the moment at which the step has ended, so that a step that begins writes
-- nothing to its agent session.
create function agent_step_bytes(status text, wish integer, shown integer, result integer) returns bigint immutable language sql as $$
    select 256 + wish + case when status in ('planned', 'running') then 0 else coalesce(shown, 0) + coalesce(result, 0) end::bigint
$$;

create function count_new_agent_turns() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (select agent_session_id, sum(256 + octet_length(sealed_said)) as bytes from new_rows group by agent_session_id) n
    where a.id = n.agent_session_id;
    return null;
end
$$;

create function count_changed_agent_turns() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (
        select agent_session_id, sum(bytes) as bytes
        from (select agent_session_id, octet_length(sealed_said) as bytes from new_rows
              union all select agent_session_id, -octet_length(sealed_said) from old_rows) changed
        group by agent_session_id having sum(bytes) <> 0
    ) n
    where a.id = n.agent_session_id;
    return null;
end
$$;

create function count_new_agent_steps() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (select agent_session_id, sum(agent_step_bytes(status, octet_length(sealed_wish), octet_length(sealed_shown), octet_length(sealed_result))) as bytes
          from new_rows group by agent_session_id) n
    where a.id = n.agent_session_id;
    return null;
end
$$;

create function count_changed_agent_steps() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (
        select agent_session_id, sum(bytes) as bytes
        from (select agent_session_id, agent_step_bytes(status, octet_length(sealed_wish), octet_length(sealed_shown), octet_length(sealed_result)) as bytes
              from new_rows
              union all select agent_session_id, -agent_step_bytes(status, octet_length(sealed_wish), octet_length(sealed_shown), octet_length(sealed_result))
              from old_rows) changed
        group by agent_session_id having sum(bytes) <> 0
    ) n
    where a.id = n.agent_session_id;
    return null;
end
$$;

create function count_new_agent_receipts() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (select session_id, sum(256 + coalesce(octet_length(sealed_body), 0)) as bytes from new_rows group by session_id) n
    where a.id = n.session_id;
    return null;
end
$$;

create function count_changed_agent_receipts() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (
        select session_id, sum(bytes) as bytes
        from (select session_id, coalesce(octet_length(sealed_body), 0) as bytes from new_rows
              union all select session_id, -coalesce(octet_length(sealed_body), 0) from old_rows) changed
        group by session_id having sum(bytes) <> 0
    ) n
    where a.id = n.session_id;
    return null;
end
$$;

-- The answer of a create comes after its row, which is there before the agent session is.
create function count_changed_agent_creates() returns trigger language plpgsql as $$
begin
    update agent_sessions a set stored_bytes = a.stored_bytes + n.bytes
    from (
        select agent_session_id, sum(bytes) as bytes
        from (select agent_session_id, coalesce(octet_length(body), 0) as bytes from new_rows
              union all select agent_session_id, -coalesce(octet_length(body), 0) from old_rows) changed
        where agent_session_id is not null group by agent_session_id having sum(bytes) <> 0
    ) n
    where a.id = n.agent_session_id;
    return null;
end
$$;

create trigger agent_turns_count_new after insert on agent_turns
    referencing new table as new_rows for each statement execute function count_new_agent_turns();
create trigger agent_turns_count_changed after update on agent_turns
    referencing old table as old_rows new table as new_rows for each statement execute function count_changed_agent_turns();
create trigger agent_steps_count_new after insert on agent_steps
    referencing new table as new_rows for each statement execute function count_new_agent_steps();
create trigger agent_steps_count_changed after update on agent_steps
    referencing old table as old_rows new table as new_rows for each statement execute function count_changed_agent_steps();
create trigger agent_message_receipts_count_new after insert on agent_message_receipts
    referencing new table as new_rows for each statement execute function count_new_agent_receipts();
create trigger agent_message_receipts_count_changed after update on agent_message_receipts
    referencing old table as old_rows new table as new_rows for each statement execute function count_changed_agent_receipts();
create trigger agent_session_creates_count_changed after update on agent_session_creates
    referencing old table as old_rows new table as new_rows for each statement execute function count_changed_agent_creates();
