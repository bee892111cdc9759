-- An operation updates its session's row twice. That touches no index as long as no index depends on what it changes, its status and
-- when it did so: what indexes need to know of both is in columns of their own, which change when a session ends.

alter table sessions
    add column live boolean not null generated always as (status in ('creating', 'ready', 'busy')) stored,
    -- How and when it ended.
    add column ended text generated always as (case when status in ('destroyed', 'errored') then status end) stored,
    add column ended_at timestamptz generated always as (case when status in ('destroyed', 'errored') then updated_at end) stored;
-- Room for the next version of a row beside it.
alter table sessions set (fillfactor = 80);

drop index sessions_live_by_account_idx, sessions_live_by_worker_idx, sessions_live_by_profile_key, sessions_ended_idx,
           sessions_ended_by_account_idx, sessions_ended_by_label_idx;
create index sessions_live_by_account_idx on sessions (account_id) where live;
create index sessions_live_by_worker_idx on sessions (worker_id) where live;
create unique index sessions_live_by_profile_key on sessions (profile_id) where live;
create index sessions_ended_idx on sessions (ended_at) where not live;
create index sessions_ended_by_account_idx on sessions (account_id, ended, id desc) where not live;
create index sessions_ended_by_label_idx on sessions (account_id, label, ended, id desc) where not live and label is not null;

create or replace function count_sessions_locked(account uuid) returns table (tier text, live bigint) volatile rows 1 language plpgsql as $$
begin
    select a.tier into tier from accounts a where a.id = account and a.status = 'active' for no key update;
    if found then
        select count(*) into live from sessions s where s.account_id = account and s.live;
        return next;
    end if;
end
$$;
