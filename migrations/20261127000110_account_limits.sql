-- Limits of one account that replace those of its tier; null where the tier decides.
alter table accounts
    add column concurrent_sessions_limit integer,
    add column profiles_limit integer;

-- Locks the row of an account that may act, and then counts its live sessions, as count_sessions_locked does, which the version before
-- calls. It also returns the account's own limit, as it is once the row is locked.
create function lock_and_count_sessions(account uuid) returns table (tier text, own_limit integer, live bigint)
volatile rows 1 language plpgsql as $$
begin
    select a.tier, a.concurrent_sessions_limit into tier, own_limit
    from accounts a where a.id = account and a.status = 'active' for no key update;
    if found then
        select count(*) into live from sessions s where s.account_id = account and s.live;
        return next;
    end if;
end
$$;
