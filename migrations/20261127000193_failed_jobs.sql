-- no-transaction
-- Few among many finished jobs.
create index concurrently if not exists jobs_failed_idx on apalis.jobs (id) where status in ('Failed', 'Killed');
