-- The last attempts of a delivery, and what signed the last one, which customers can read.
alter table webhook_deliveries
    add column attempts_log jsonb,
    add column last_signature text;

-- Appends an attempt and keeps the last ten.
create function append_attempt(log jsonb, attempt jsonb) returns jsonb language sql immutable as $$
    select jsonb_agg(entry order by place)
    from (select entry, place
          from jsonb_array_elements(coalesce(log, '[]') || jsonb_build_array(attempt)) with ordinality as entries (entry, place)
          order by place desc limit 10) last
$$;

-- The previous secret of an OAuth client works for a while after a rotation.
alter table oauth_clients
    add column prev_secret_hash bytea,
    add column prev_secret_expires_at timestamptz;

-- A link to a new e-mail address confirms it.
-- squawk-ignore ban-drop-constraint
alter table mail_links drop constraint mail_links_purpose_check;
alter table mail_links add constraint mail_links_purpose_check
    check (purpose in ('verify_email', 'magic_link', 'reset_password', 'confirm_sign_in', 'change_email')) not valid;

-- Customers name a linked identity by its id. The table has a few rows for each account that signs in elsewhere.
alter table identities add column id uuid;
update identities set id = uuid_v7();
alter table identities alter column id set default uuid_v7();
