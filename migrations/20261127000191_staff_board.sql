-- What the staff board shows of workers and requeues.
alter table workers add column hot_browsers integer;
-- Of the last minute, for each processor: 1 when all are in use.
alter table workers add column processor_load double precision;

-- Part of the error of the requeued dead letters; null for all.
alter table delivery_requeues add column error text;
alter table delivery_requeues add column paused_at timestamptz;
-- The last bulk requeue of the delivery, which reports what became of it.
alter table webhook_deliveries add column requeue_id uuid;

-- As staff see and search it.
create function delivery_error(last_error text, last_response_status integer) returns text language sql immutable as $$
    select coalesce(last_error, 'HTTP ' || last_response_status::text, 'no response')
$$;
