-- What was done, for reports: no quota hangs on it.

-- A row for each account, UTC day and slot. The slot is the backend's that counts, so that an account's operations do not
-- wait for each other to commit; readers add them up.
create table usage_counts (
    account_id uuid not null references accounts (id),
    day date not null,
    slot smallint not null,
    session_minute bigint not null default 0,
    navigate bigint not null default 0,
    interact bigint not null default 0,
    wait bigint not null default 0,
    state_capture bigint not null default 0,
    screenshot_capture bigint not null default 0,
    primary key (account_id, day, slot)
);
