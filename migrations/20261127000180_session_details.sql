-- Why a session has ended, and the error that ended it. A domain restricts the reason, because every operation writes the table.
create domain session_end_reason as text;

alter table sessions
    add column end_reason session_end_reason,
    add column error jsonb;

-- squawk-ignore ban-alter-domain-with-add-constraint
alter domain session_end_reason add constraint session_end_reason_is_known
    check (value in ('customer', 'free_tier_cap', 'suspended', 'staff', 'idle', 'worker_lost', 'failed', 'max_age')) not valid;
