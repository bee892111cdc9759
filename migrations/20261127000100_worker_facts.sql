-- Facts about a worker that operators need. The version and the sandbox are written when the worker starts, what is free of its machine
-- with each heartbeat. A worker of the version before leaves them null.
alter table workers
    add column version text,
    -- Null for a worker without real browsers.
    add column is_sandboxed boolean,
    add column free_disk_bytes bigint,
    add column free_memory_bytes bigint,
    -- Time at which the worker was told to stop. From then on it cannot return to service.
    add column stopping_at timestamptz;
