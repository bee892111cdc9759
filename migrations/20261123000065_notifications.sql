-- What happens to what an account has, for whoever follows it while it happens.

-- Written by the transaction of what happened. It has no number yet, because who gives numbers one after the other has to lock something
-- until he commits, and operations of an account would wait for each other. Rows refer to accounts without a foreign key: to check it
-- would lock the account's row once more for everything that happens.
create table notifications (
    -- Drawn after whatever led to it was committed.
    place bigint generated always as identity primary key,
    account_id uuid not null,
    -- Given when somebody asks, under the lock of the account's reader: what has one was committed before any higher one was given.
    number bigint,
    event text not null,
    data json not null,
    created_at timestamptz not null default clock_timestamp()
);

create unique index notifications_number_key on notifications (account_id, number) where number is not null;
create index notifications_unnumbered_idx on notifications (account_id, created_at, place) where number is null;
create index notifications_created_at_idx on notifications (created_at);

-- Accounts of which somebody has asked what happens.
create table notification_readers (
    account_id uuid primary key references accounts (id),
    -- The highest number that was given. The first is drawn by chance, so that numbers of one account mean nothing on another.
    last_number bigint not null default 100000000000000 + (random() * 900000000000000)::bigint,
    -- Operations are written down until then: whoever asks within the retention has missed none.
    until timestamptz not null,
    -- Until then a stream is open, and somebody has to be told at once.
    streamed_until timestamptz not null default '-infinity'
);

-- Streams that are open, each for as long as its process says so.
create table notification_streams (
    id uuid primary key,
    account_id uuid not null references notification_readers (account_id) on delete cascade,
    until timestamptz not null
);

create index notification_streams_account_id_idx on notification_streams (account_id);
create index notification_streams_until_idx on notification_streams (until);

-- Writes a notification, and has the processes told in which somebody follows the account.
create function write_notification(account uuid, event text, data json) returns void language plpgsql as $$
begin
    insert into notifications (account_id, event, data) values (account, write_notification.event, write_notification.data);
    if exists (select from notification_readers r where r.account_id = account and r.streamed_until > now()) then
        perform pg_notify('notifications', account::text);
    end if;
end
$$;

-- Gives numbers to what has none, in the order of what happened, and answers the highest. A function, because each of its statements sees
-- what there is when the lock is had.
create function number_notifications(account uuid) returns bigint language plpgsql as $$
declare
    highest bigint;
    given bigint;
begin
    select r.last_number into highest from notification_readers r where r.account_id = account for no key update;
    if not found then
        return null;
    end if;
    with waiting as (
        select n.place, row_number() over (order by n.created_at, n.place) as nth
        from notifications n where n.account_id = account and n.number is null
    )
    update notifications n set number = highest + w.nth from waiting w where n.place = w.place;
    get diagnostics given = row_count;
    if given > 0 then
        update notification_readers r set last_number = highest + given where r.account_id = account;
    end if;
    return highest + given;
end
$$;

create function notify_of_new_session() returns trigger language plpgsql as $$
begin
    perform write_notification(new.account_id, 'session.created',
                               json_build_object('session_id', 'ses_' || new.id, 'archetype', new.archetype));
    return null;
end
$$;

create trigger sessions_notify_created after insert on sessions for each row execute function notify_of_new_session();

create function notify_of_ready_session() returns trigger language plpgsql as $$
begin
    perform write_notification(new.account_id, 'session.ready', json_build_object('session_id', 'ses_' || new.id));
    return null;
end
$$;

create trigger sessions_notify_ready after update of status on sessions for each row
when (old.status = 'creating' and new.status = 'ready')
execute function notify_of_ready_session();

-- An operation is on somebody's way: nothing is written where nobody has asked, and nobody is told by a transaction that waits for the
-- disk, which others that tell would have to wait for. Who has claimed the session tells.
create function notify_of_operation() returns trigger language plpgsql as $$
begin
    if exists (select from notification_readers r where r.account_id = new.account_id and r.until > now()) then
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

create trigger sessions_notify_operation after update of status on sessions for each row
when ((old.status = 'busy') <> (new.status = 'busy'))
execute function notify_of_operation();

-- What webhooks are told of, whoever follows the account is told of in the same words.
create function notify_of_event() returns trigger language plpgsql as $$
begin
    perform write_notification(new.account_id, new.type, new.data::json);
    return null;
end
$$;

create trigger events_notify after insert on events for each row when (new.type <> 'test.ping') execute function notify_of_event();

create function notify_of_agent_session() returns trigger language plpgsql as $$
begin
    perform write_notification(new.account_id, 'agent_session.changed', json_build_object(
        'agent_session_id', 'agt_' || new.id, 'session_id', 'ses_' || new.session_id, 'mode', new.mode,
        'control', case when new.driver is null then 'ai' else 'human' end, 'status', new.status));
    return null;
end
$$;

create trigger agent_sessions_notify_new after insert on agent_sessions for each row execute function notify_of_agent_session();
create trigger agent_sessions_notify_changed after update of mode, driver, status on agent_sessions for each row
when ((old.mode, old.driver, old.status) is distinct from (new.mode, new.driver, new.status))
execute function notify_of_agent_session();

create function notify_of_agent_turn() returns trigger language plpgsql as $$
begin
    perform write_notification(a.account_id, 'agent_turn.completed', json_build_object(
        'agent_session_id', 'agt_' || new.agent_session_id, 'turn_id', 'turn_' || new.id, 'kind', new.kind,
        'tokens_used', new.tokens_used))
    from agent_sessions a where a.id = new.agent_session_id;
    return null;
end
$$;

create trigger agent_turns_notify_completed after update of status on agent_turns for each row
when (old.status <> 'done' and new.status = 'done')
execute function notify_of_agent_turn();

-- By too many failures: what its owner deletes is disabled, too, and nothing that has to be told.
create function notify_of_disabled_webhook() returns trigger language plpgsql as $$
begin
    perform write_notification(new.account_id, 'webhook_endpoint.disabled', json_build_object(
        'endpoint_id', 'whk_' || new.id, 'consecutive_failures', new.consecutive_failures));
    return null;
end
$$;

create trigger webhook_endpoints_notify_disabled after update of disabled_at on webhook_endpoints for each row
when (old.disabled_at is null and new.disabled_at is not null and new.deleted_at is null)
execute function notify_of_disabled_webhook();

create function notify_of_saved_profile() returns trigger language plpgsql as $$
begin
    perform write_notification(new.account_id, 'profile.saved', json_build_object(
        'profile_id', 'prof_' || new.id, 'size_bytes', new.size_bytes));
    return null;
end
$$;

create trigger profiles_notify_saved after update of stored_generation on profiles for each row
when (old.stored_generation is distinct from new.stored_generation)
execute function notify_of_saved_profile();
