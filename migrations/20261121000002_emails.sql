-- Mails to be sent, and those that were. A row holds no secret: a link's token is made when the mail is.

create table emails (
    id uuid primary key,
    template text not null,
    -- To the account of this id or, where a stranger only named an address, to the account that has it, if any.
    account_id uuid references accounts (id),
    email_key text,
    -- What the template tells besides.
    details jsonb not null default '{}',
    status text not null default 'queued' check (status in ('queued', 'sending', 'done')),
    -- As service_email_send_total names it; null when nobody was to be written to.
    outcome text,
    attempts integer not null default 0,
    -- When the next attempt is due; while one is under way, when it is given up.
    next_attempt_at timestamptz not null default now(),
    created_at timestamptz not null default now(),
    -- A mail is worth nothing after this.
    expires_at timestamptz not null,
    done_at timestamptz,
    constraint emails_has_a_recipient check (account_id is not null or email_key is not null)
);

create index emails_due_idx on emails (next_attempt_at) where status <> 'done';
create index emails_done_at_idx on emails (done_at) where status = 'done';
-- Some mails are sent to an account once.
create unique index emails_once_key on emails (account_id, template)
    where template in ('welcome', 'session_success_first', 'session_failed_first');

create table email_preferences (
    account_id uuid not null references accounts (id),
    event_type text not null,
    opted_in boolean not null,
    updated_at timestamptz not null default now(),
    primary key (account_id, event_type)
);
