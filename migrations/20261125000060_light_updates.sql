-- A statement that writes rows reads each generated column, constraint and condition of a trigger of its table from its text anew,
-- which was a third of what an operation's two updates of a session cost. So what only a session's end changes is
-- written by one trigger, which does all else that goes with an end.

-- The version before reads and writes all of this by the same names. Its functions are called by triggers alone, and what columns may hold
-- is said all the while.
-- squawk-ignore-file ban-drop-generated-expression, ban-drop-function, ban-drop-constraint, changing-column-type, ban-alter-domain-with-add-constraint

alter table sessions
    alter column live drop expression, alter column live set default true,
    alter column ended drop expression,
    alter column ended_at drop expression;

-- A session that has ended lives no longer, leaves its slot, needs its proxy's secrets no longer and counts its last minutes.
create function settle_ended_session() returns trigger language plpgsql as $$
begin
    update sessions set live = false, ended = new.status, ended_at = new.updated_at where id = new.id;
    update worker_slots set session_id = null where session_id = new.id;
    if new.proxy_id is not null then
        delete from session_proxies where session_id = new.id;
    end if;
    -- One that never was ready was of no use.
    if old.status <> 'creating' then
        insert into usage_counts as u (account_id, day, record, slot, count)
        select new.account_id, day, 'session_minute', usage_slot(), minutes
        from session_minutes(new.created_at, now()) where minutes > 0
        on conflict (account_id, day, record, slot) do update set count = u.count + excluded.count;
    end if;
    return null;
end
$$;

drop trigger sessions_free_slot on sessions;
drop trigger sessions_forget_proxy on sessions;
drop trigger sessions_count_minutes on sessions;
drop function free_slot();
drop function forget_session_proxy();
drop function count_session_minutes();

-- Whoever asked what happens on the account is told that a session is ready, and when its operations begin and end.
create or replace function notify_of_operation() returns trigger language plpgsql as $$
begin
    if old.status = 'creating' and new.status = 'ready' then
        perform write_notification(new.account_id, 'session.ready', json_build_object('session_id', 'ses_' || new.id));
    elsif (old.status = 'busy') <> (new.status = 'busy')
       and exists (select from notification_readers r where r.account_id = new.account_id and r.until > now()) then
        insert into notifications (account_id, event, data)
        select new.account_id, 'operation.started', json_build_object('session_id', 'ses_' || new.id, 'operation', i.kind)
        from intents i where new.status = 'busy' and i.id = new.operation_id
        union all
        select new.account_id, 'operation.ended',
               json_build_object('session_id', 'ses_' || new.id, 'operation', i.kind,
                                 'outcome', coalesce(i.outcome->>'ended', case new.status when 'destroyed' then 'destroyed' else 'failed' end))
        from intents i where old.status = 'busy' and i.id = old.operation_id;
    end if;
    return null;
end
$$;

drop trigger sessions_notify_ready on sessions;
drop function notify_of_ready_session();
drop trigger sessions_notify_operation on sessions;

-- What a column may hold is known to the connection once it is its type that says it. Rows have been held to the same until now, so that
-- none is looked at again, and none is written again: a domain has no condition yet while a column gets it.
create domain session_status as text;
create domain operation_kind as text;
create domain usage_record as text;

alter table sessions drop constraint sessions_claim_matches_status, drop constraint sessions_status_check;
alter table intents drop constraint intents_kind_check;
alter table usage_counts drop constraint usage_counts_record_check;
alter table sessions alter column status type session_status;
alter table intents alter column kind type operation_kind;
alter table usage_counts alter column record type usage_record;

alter domain session_status add constraint session_status_is_known
    check (value in ('creating', 'ready', 'busy', 'destroyed', 'errored')) not valid;
alter domain operation_kind add constraint operation_kind_is_known
    check (value in ('open', 'navigate', 'interact', 'wait', 'state_capture', 'capture', 'extract', 'search', 'login', 'gui_input')) not valid;
alter domain usage_record add constraint usage_record_is_known
    check (value in ('session_minute', 'navigate', 'interact', 'wait', 'state_capture', 'screenshot_capture')) not valid;
alter table sessions add constraint sessions_claim_matches_status
    check ((operation_id is not null) = (status in ('creating', 'busy'))) not valid;

create trigger sessions_settle after update of status on sessions for each row
when (new.live and new.status in ('destroyed', 'errored')) execute function settle_ended_session();
create trigger sessions_notify_operation after update of status on sessions for each row
when (new.is_followed or old.status = 'creating') execute function notify_of_operation();
