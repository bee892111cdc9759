-- How many changes of its configuration an account has made lately. The audit log keeps a row of each for ever.
create table audited_changes (
    account_id uuid primary key references accounts (id),
    -- When all changes of an hour can be made at once again. A change moves it by its share of the hour.
    full_at timestamptz not null
);
