-- Sessions and agent sessions that ended longer ago than so many seconds, the oldest first, and no more of them than a batch may delete
-- rows: whatever goes before them, and they themselves, is looked for among the same ones.

create function sessions_past_term(age double precision, most bigint) returns setof uuid stable language sql as $$
    select id from sessions
    where not live and ended_at < now() - make_interval(secs => age) and not profile_in_hand order by ended_at limit most
$$;

create function agent_sessions_past_term(age double precision, most bigint) returns setof uuid stable language sql as $$
    select id from agent_sessions
    where status = 'closed' and destroyed_at < now() - make_interval(secs => age) order by destroyed_at limit most
$$;
