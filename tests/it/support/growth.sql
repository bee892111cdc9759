-- A million sessions of one account and as many operations, and hundreds of thousands of all else, as months of use leave them: nearly
-- all of it has ended, and little is to be done about it. Triggers and references are not looked at meanwhile, which would take minutes.
set session_replication_role = replica;

insert into accounts (id, email, email_key, name, tier)
select uuid_v7_of(now() - n * interval '1 second'), n || '@example.com', n || '@example.com', 'Ada',
       case when n % 2 = 0 then 'free' else 'enterprise' end
from generate_series(1, 10000) n;

-- One worker is about to be found dead, and the others were long ago.
insert into workers (id, name, driver, max_sessions, public_key, status, last_seen_at)
select uuid_v7_of(now() - n * interval '1 minute'), 'worker ' || n, 'simulated', 100, '',
       case when n = 1 then 'active' when n % 2 = 0 then 'lost' else 'stopped' end, now() - n * interval '1 minute'
from generate_series(1, 200) n;

create temporary table one as select id as account from accounts where name = 'Ada Lovelace';
-- Some of the above, by what they were made of: an array of them would be unpacked for every row.
create function pg_temp.some_account(n integer) returns uuid language sql as
$$ select uuid_v7_of(now() - (1 + n % 10000) * interval '1 second') $$;
create function pg_temp.some_worker(n integer) returns uuid language sql as
$$ select uuid_v7_of(now() - (1 + n % 200) * interval '1 minute') $$;

insert into sessions (id, account_id, worker_id, status, archetype, purpose, behavioral_profile, label, created_at, updated_at,
                      live, ended, ended_at)
select uuid_v7_of(began), account, pg_temp.some_worker(n), how, 'iphone', 'test', 'regular',
       case when n % 3 = 0 then 'nightly' when n % 100001 = 0 then 'rare' end, began, began, false, how, began
from one, generate_series(1, 1000000) n,
     lateral (select now() - n * interval '6 seconds', case when n % 100000 = 0 then 'errored' else 'destroyed' end) t (began, how);
insert into sessions (id, account_id, worker_id, status, archetype, purpose, behavioral_profile)
select uuid_v7_of(now() - interval '1 minute' - n * interval '1 millisecond'), pg_temp.some_account(n), pg_temp.some_worker(n), 'ready', 'iphone', 'test',
       'regular'
from one, generate_series(1, 300) n;

insert into intents (id, session_id, worker_id, kind, status, request, outcome, reply_channel, request_id, done_at)
select uuid_v7_of(moment), uuid_v7_of(now() - n * interval '6 seconds'), pg_temp.some_worker(n), 'wait', 'done', '{}',
       case when n <= 50 then '{"ended": "done"}'::jsonb end, 'nobody', '', moment
from one, generate_series(1, 1000000) n,
     lateral (select now() - interval '1 hour' - case when n <= 999950 then n * interval '500 milliseconds' else n * interval '1 second' end)
         t (moment);

insert into apalis.workers (id, worker_type, storage_name)
select queue || ':wrk_' || w.id, queue, 'kitfleet' from workers w, unnest(array['browser', 'emails', 'maintenance']) queue
on conflict do nothing;
-- All of one millisecond, a day ago: ids begin with their time, in base 32.
with day as (
    select string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (at >> 5 * place & 31)::integer + 1, 1), '' order by place desc) as prefix
    from (select (extract(epoch from now() - interval '1 day') * 1000)::bigint as at) now, generate_series(0, 9) place
)
insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority, lock_by, lock_at, done_at)
select prefix || lpad(n::text, 16, '0'), case when n % 10 = 0 then 'emails' else 'browser:wrk_' || pg_temp.some_worker(n) end, '{}', 'Done', 1, 1,
       to_timestamp(0), 0, case when n % 10 = 0 then 'emails' else 'browser' end || ':wrk_' || pg_temp.some_worker(n),
       now() - interval '1 day', now() - interval '1 day'
from one, day, generate_series(1, 300000) n;

insert into webhook_endpoints (id, account_id, url, events, sealed_secret, secret_prefix, disabled_at, active)
select uuid_v7_of(now() - n * interval '1 minute'), case when n = 1 then account else pg_temp.some_account(n) end, 'https://example.com', '{session.failed}', '',
       '', case when n % 100 = 0 then now() end, n % 100 <> 1 or n = 1
from one, generate_series(1, 5000) n;
insert into events (id, account_id, type, data, created_at)
select uuid_v7_of(now() - n * interval '2 seconds'), account, 'session.failed', '{}', now() - n * interval '2 seconds'
from one, generate_series(1, 300000) n;
insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type, status, attempts, next_attempt_at, due)
select uuid_v7_of(now() - n * interval '2 seconds'), account, uuid_v7_of(now() - case when n % 10 < 9 then 1 else 1 + n % 4999 end * interval '1 minute'),
       uuid_v7_of(now() - n * interval '2 seconds'), 'session.failed',
       case when n % 50000 = 0 then 'dlq' else 'delivered' end, 1, null, false
from one, generate_series(1, 300000) n;

insert into audit_log (id, account_id, actor_type, action)
select uuid_v7_of(now() - n * interval '6 seconds'), account, 'system', case when n % 50000 = 0 then 'account.login' else 'session.created' end
from one, generate_series(1, 200000) n;
insert into emails (id, template, account_id, status, expires_at, done_at)
select uuid_v7_of(now() - n * interval '1 second'), 'api_key_minted', account, 'done', now(), now() - n * interval '1 second'
from one, generate_series(1, 200000) n;
insert into usage_counts (account_id, day, record, slot, count)
select account, current_date - day, 'navigate', slot, 1 from one, generate_series(1, 399) day, generate_series(0, 31) slot;
insert into profiles (id, account_id, name, archetype, sealed_key, deleted_at)
select uuid_v7_of(now() - n * interval '1 minute'), pg_temp.some_account(n), 'Phone', 'iphone', '',
       case when n % 100 = 0 then now() - interval '1 hour' end
from one, generate_series(1, 50000) n;

insert into agent_sessions (id, account_id, session_id, mode, status, close_reason, archetype, token_budget, destroyed_at)
select uuid_v7_of(now() - n * interval '6 seconds'), account, uuid_v7_of(now() - n * interval '6 seconds'), 'ai', 'closed', 'customer', 'iphone',
       1, now() - n * interval '6 seconds'
from one, generate_series(1, 100000) n;
insert into agent_turns (id, agent_session_id, worker_id, status, kind, sealed_said, reply_channel, request_id, done_at)
select uuid_v7_of(now() - n * interval '6 seconds'), uuid_v7_of(now() - n * interval '6 seconds'), pg_temp.some_worker(n), 'done', 'plan', '',
       'nobody', '', now()
from one, generate_series(1, 100000) n;
insert into agent_steps (id, turn_id, agent_session_id, position, kind, status, operation_id, sealed_wish)
select uuid_v7_of(now() - n * interval '6 seconds'), uuid_v7_of(now() - n * interval '6 seconds'), uuid_v7_of(now() - n * interval '6 seconds'), 1,
       'tap', 'done', uuid_v7_of(now() - n * interval '6 seconds'), ''
from generate_series(1, 100000) n;
insert into notification_readers (account_id, last_number, until)
select account, 1150000, now() + interval '1 day' from one;
insert into notifications (account_id, number, event, data, created_at)
select account, 1000000 + n, 'operation.ended', '{}', now() - (150001 - n) * interval '400 milliseconds'
from one, generate_series(1, 150000) n;
insert into challenges (id, session_id, type, confidence, detail, outcome, ended_at)
select uuid_v7_of(now() - n * interval '6 seconds'), uuid_v7_of(now() - n * interval '6 seconds'), 'generic', 1, '', 'disappeared', now()
from generate_series(1, 100000) n;

-- What people and programs prove themselves with, and what is good for a while yet.
insert into web_sessions (id, account_id, token_hash, expires_at, revoked_at)
select uuid_v7_of(now() - n * interval '1 second'), pg_temp.some_account(n), int4send(n), now() + interval '1 day',
       case when n % 2 = 0 then now() end
from one, generate_series(1, 100000) n;
insert into api_keys (id, account_id, name, scopes, key_prefix, key_hash)
select uuid_v7_of(now() - n * interval '1 second'), pg_temp.some_account(n), 'key', '{read}', 'svc_live_', int4send(n)
from one, generate_series(1, 100000) n;
insert into oauth_clients (id, account_id, name, secret_hash, scopes, created_by_account_id)
select uuid_v7_of(now()), account, 'robot', '', '{read}', account from one;
insert into oauth_tokens (token_hash, client_id, scopes, expires_at)
select int4send(n), (select id from oauth_clients limit 1), '{read}', now() + interval '1 day' from generate_series(1, 100000) n;
insert into live_tickets (ticket_hash, session_id, role, acting_account_id, web_session_id, expires_at, used_at)
select int4send(n), uuid_v7_of(now() - n * interval '6 seconds'), 'viewer', account, uuid_v7_of(now()), now() + interval '1 day', now()
from one, generate_series(1, 100000) n;

insert into crypto_orders (id, account_id, idempotency_key, product, price_cents, price_currency, pay_currency, status, reason, ended_at, paid_until,
                           lapsed_at, created_at, expires_at)
select uuid_v7_of(now() - n * interval '1 minute'), pg_temp.some_account(n), n::text, 'api_scale', 1, 'usd', 'btc',
       case when n % 2 = 0 then 'paid' else 'failed' end, case when n % 2 = 1 then 'expired' end, now(),
       case when n % 2 = 0 then now() - interval '1 day' end, case when n % 2 = 0 then now() end, now() - n * interval '1 minute', now()
from one, generate_series(1, 100000) n;
insert into card_events (id, type, created_at)
select 'evt_' || n, 'invoice.paid', now() from generate_series(1, 100000) n;
insert into card_subscriptions (id, account_id, status, started_at, told_at, told_rank, ended)
select 'sub_' || n, pg_temp.some_account(n), 'canceled', now(), now(), 1, true from one, generate_series(1, 50000) n;
insert into card_notices (template, about, account_id, details)
select 'payment_receipt', 'in_' || n, pg_temp.some_account(n), '{}' from one, generate_series(1, 100000) n;
insert into delivery_requeues (id, account_id, total, requeued, done_at)
select uuid_v7_of(now() - n * interval '1 minute'), pg_temp.some_account(n), 1, 1, now() from one, generate_series(1, 50000) n;
insert into status_subscribers (id, email, email_key, confirm_until, confirmed_at)
select uuid_v7_of(now() - n * interval '1 minute'), n || '@example.com', n || '@example.com', now(), now() from generate_series(1, 50000) n;

drop table one;
set session_replication_role = origin;
