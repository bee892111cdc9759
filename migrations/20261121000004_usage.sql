-- What was done, for reports: no quota hangs on it.

-- A row for each account, UTC day, kind of record and slot. The slot is that of the backend which counts, so that an
-- account's operations do not wait for each other to commit; readers add them up.
create table usage_counts (
    account_id uuid not null references accounts (id),
    day date not null,
    record text not null check (record in (
        'session_minute', 'navigate', 'interact', 'wait', 'state_capture', 'screenshot_capture'
    )),
    slot smallint not null,
    count bigint not null,
    primary key (account_id, day, record, slot)
);

-- The slot of whoever asks.
create function usage_slot() returns smallint language sql stable as $$
    select (pg_backend_pid() % 32)::smallint
$$;

-- How many minutes of something that began at one instant had begun before another.
create function minutes_begun(since timestamptz, until timestamptz) returns bigint language sql immutable as $$
    select greatest(ceil(extract(epoch from until - since) / 60), 0)::bigint
$$;

-- The minutes of a session that lived from one instant to another, each on the UTC day it began in. Every day's are what
-- had begun by its end without what had begun before it, so that a long life costs as many rows as it has days.
create function session_minutes(since timestamptz, until timestamptz) returns table (day date, minutes bigint)
language sql immutable as $$
    select midnight::date, minutes_begun(since, least(until, (midnight + interval '1 day') at time zone 'utc'))
                           - minutes_begun(since, midnight at time zone 'utc')
    from generate_series(date_trunc('day', since at time zone 'utc'), until at time zone 'utc', interval '1 day') midnight
$$;

-- A session's minutes are counted when it ends, whatever ends it, and by readers as long as it lives. One that never was
-- ready had no browser, and counts nothing.
create function count_session_minutes() returns trigger language plpgsql as $$
begin
    insert into usage_counts as u (account_id, day, record, slot, count)
    select new.account_id, day, 'session_minute', usage_slot(), minutes
    from session_minutes(new.created_at, now()) where minutes > 0
    on conflict (account_id, day, record, slot) do update set count = u.count + excluded.count;
    return null;
end
$$;

create trigger sessions_count_minutes after update of status on sessions for each row
when (old.status in ('ready', 'busy') and new.status in ('destroyed', 'errored'))
execute function count_session_minutes();
