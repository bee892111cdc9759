-- Figures of the service over time, for staff. A figure has the name of its metric, with its labels.

-- Counters and gauges of a process, which it reports by itself.
create table process_figures (
    process uuid primary key,
    figures jsonb not null,
    seen_at timestamptz not null default now()
);

-- All figures of the deployment, one row a minute.
create table service_samples (
    at timestamptz primary key,
    figures jsonb not null
);
