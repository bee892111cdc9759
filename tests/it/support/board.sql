-- A large service for the staff board: 1,000 workers with 10,000 live sessions, many finished jobs, operations and dead letters, and
-- the samples of 14 days. Triggers and references are not looked at meanwhile, which would take minutes.
set session_replication_role = replica;

insert into accounts (id, email, email_key, name, tier)
select uuid_v7_of(now() - n * interval '1 minute'), 'board' || n || '@example.com', 'board' || n || '@example.com', 'Ada', 'enterprise'
from generate_series(1, 2000) n;
create function pg_temp.some_account(n integer) returns uuid language sql as
$$ select uuid_v7_of(now() - (1 + n % 2000) * interval '1 minute') $$;

-- Their leases do not expire during the test.
insert into workers (id, name, driver, max_sessions, public_key, last_seen_at, version)
select uuid_v7_of(now() - n * interval '1 hour'), 'board ' || n, 'simulated', 12, '', now() + interval '1 hour', '0.1.0'
from generate_series(1, 1000) n;
create function pg_temp.some_worker(n integer) returns uuid language sql as
$$ select uuid_v7_of(now() - (1 + n % 1000) * interval '1 hour') $$;

-- One of ten is busy.
insert into sessions (id, account_id, worker_id, status, operation_id, archetype, purpose, behavioral_profile, label)
select uuid_v7_of(now() - n * interval '1 second'), pg_temp.some_account(n), pg_temp.some_worker(n),
       case when n % 10 = 0 then 'busy' else 'ready' end,
       case when n % 10 = 0 then uuid_v7_of(now() - n * interval '1 millisecond') end, 'iphone-16-ios-18', 'production_customer',
       'regular', 'live ' || n
from generate_series(1, 10000) n;
insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, started_at)
select uuid_v7_of(now() - n * interval '1 millisecond'), uuid_v7_of(now() - n * interval '1 second'), pg_temp.some_worker(n), 'wait', 'running',
       '{}', 'none', '', now()
from generate_series(10, 10000, 10) n;
insert into worker_slots (worker_id, number, session_id)
select pg_temp.some_worker(n), 1 + n / 1000, case when n <= 10000 then uuid_v7_of(now() - n * interval '1 second') end
from generate_series(1, 11999) n;

-- Ended sessions.
insert into sessions (id, account_id, worker_id, status, archetype, purpose, behavioral_profile, created_at, updated_at, live, ended, ended_at)
select uuid_v7_of(began), pg_temp.some_account(n), pg_temp.some_worker(n), 'destroyed', 'iphone-16-ios-18', 'production_customer', 'regular', began, began,
       false, 'destroyed', began
from generate_series(1, 300000) n, lateral (select now() - interval '1 day' - n * interval '6 seconds') t (began);
insert into intents (id, session_id, worker_id, kind, status, request, reply_channel, request_id, done_at)
select uuid_v7_of(moment), uuid_v7_of(now() - n * interval '6 seconds'), pg_temp.some_worker(n), 'wait', 'done', '{}', 'none', '', moment
from generate_series(1, 500000) n, lateral (select now() - interval '1 hour' - n * interval '500 milliseconds') t (moment);
with day as (
    select string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', (at >> 5 * place & 31)::integer + 1, 1), '' order by place desc) as prefix
    from (select (extract(epoch from now() - interval '1 day') * 1000)::bigint as at) now, generate_series(0, 9) place
)
insert into apalis.jobs (id, job_type, job, status, attempts, max_attempts, run_at, priority, lock_at, done_at)
select prefix || lpad(n::text, 16, '0'), case when n % 10 = 0 then 'emails' else 'browser:wrk_' || pg_temp.some_worker(n) end, '{}',
       case when n % 30000 = 0 then 'Failed' else 'Done' end, 1, 1, to_timestamp(0), 0, now() - interval '1 day', now() - interval '1 day'
from day, generate_series(1, 500000) n;

insert into webhook_endpoints (id, account_id, url, events, sealed_secret, secret_prefix, disabled_at, dlq)
select uuid_v7_of(now() - n * interval '1 minute'), pg_temp.some_account(n), 'https://hooks.example.com/' || n, '{session.failed}', '', '',
       case when n % 100 = 0 then now() end, 50
from generate_series(1, 2000) n;
insert into events (id, account_id, type, data)
select uuid_v7_of(now() - n * interval '1 minute'), pg_temp.some_account(n), 'session.failed',
       '{"session_id": "ses_019aa1de-5ba3-7f04-b6b9-0c55eb1a4f5e", "operation": "unknown", "error_name": "UnknownError",
         "error_message": "The session operation failed."}'
from generate_series(1, 2000) n;
insert into webhook_deliveries (id, account_id, endpoint_id, event_id, event_type, status, attempts, next_attempt_at, due,
                                last_response_status, last_error, created_at, updated_at)
select uuid_v7_of(moment), pg_temp.some_account(n % 2000), uuid_v7_of(now() - (1 + n % 2000) * interval '1 minute'),
       uuid_v7_of(now() - (1 + n % 2000) * interval '1 minute'), 'session.failed', case when n % 4 = 0 then 'dlq' else 'delivered' end, 6, null, false,
       case when n % 8 <> 0 then 500 end, case when n % 8 = 0 then 'timeout' end, moment, moment
from generate_series(1, 400000) n, lateral (select now() - interval '1 hour' - n * interval '1 second') t (moment);

insert into usage_counts (account_id, day, record, slot, count)
select pg_temp.some_account(n % 2000), (now() at time zone 'utc')::date - n / 2000, 'session_minute', 0, n from generate_series(0, 59999) n;

insert into service_samples (at, figures)
select date_trunc('minute', now()) - n * interval '1 minute', figures
from generate_series(1, 20160) n,
     (select jsonb_object_agg('service_http_request_total{status_class="' || f || '"}', f) ||
             '{"service_worker_slots": 12000, "service_worker_slots_free": 1999, "service_sessions_live{status=\"ready\"}": 9000}' as figures
      from generate_series(1, 40) f) one;
set session_replication_role = default;
analyze;
