-- Usage by API key, archetype and label. An operation is counted in the row of its session, which the statement that ends the
-- operation writes anyway, and the end of the session adds the counts to this table.
alter table sessions add column used jsonb;

create table usage_breakdown (
    account_id uuid not null references accounts (id),
    day date not null,
    -- 'api_key', 'archetype' or 'label', and its value; '' for sessions without one.
    dimension text not null,
    key text not null,
    record usage_record not null,
    slot smallint not null,
    count bigint not null,
    primary key (account_id, day, dimension, key, record, slot)
);
create index usage_breakdown_day_idx on usage_breakdown (day);

-- Adds one to the count of a record on a day.
create function add_use(used jsonb, day date, record text) returns jsonb language sql immutable as $$
    select jsonb_set(
        coalesce(used, '{}') || jsonb_build_object(day::text, coalesce(used -> day::text, '{}')),
        array[day::text, record], to_jsonb(coalesce((used -> day::text ->> record)::bigint, 0) + 1))
$$;

-- The counts of a session, with the minutes until now if it was of use.
create function session_uses(used jsonb, created_at timestamptz, with_minutes boolean)
returns table (day date, record text, count bigint) language sql stable as $$
    select days.day::date, counts.record, counts.count::bigint
    from jsonb_each(coalesce(used, '{}')) as days (day, counts_of), jsonb_each_text(counts_of) as counts (record, count)
    union all
    select minutes.day, 'session_minute', minutes.minutes from session_minutes(created_at, now()) minutes
    where with_minutes and minutes.minutes > 0
$$;

create or replace function settle_ended_session() returns trigger language plpgsql as $$
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
    insert into usage_breakdown as u (account_id, day, dimension, key, record, slot, count)
    select new.account_id, uses.day, keys.dimension, coalesce(keys.key, ''), uses.record, usage_slot(), uses.count
    from session_uses(new.used, new.created_at, old.status <> 'creating') uses,
         (values ('api_key', new.api_key_id::text), ('archetype', new.archetype), ('label', new.label)) as keys (dimension, key)
    order by 2, 3, 4, 5
    on conflict (account_id, day, dimension, key, record, slot) do update set count = u.count + excluded.count;
    return null;
end
$$;
