-- A create and a destroy are one statement each, which is a transaction of its own: nothing is locked while the next statement is on
-- its way. What such a statement writes into other areas' tables, it writes by functions of theirs, which are here.

-- Events: writes one, and by the trigger of its table the deliveries of it.
create function write_event(id uuid, account uuid, type text, data jsonb) returns uuid language plpgsql as $$
begin
    insert into events (id, account_id, type, data) values (write_event.id, account, write_event.type, write_event.data);
    return id;
end
$$;

-- The audit log: writes a line, whose members are the table's columns.
create function write_audit(line jsonb) returns uuid language plpgsql as $$
declare
    written uuid;
begin
    insert into audit_log (id, account_id, actor_type, actor_account_id, actor_key_id, action, target_resource_id, payload,
                           ip_address, user_agent)
    select l.id, l.account_id, l.actor_type, l.actor_account_id, l.actor_key_id, l.action, l.target_resource_id, l.payload,
           l.ip_address, l.user_agent
    from jsonb_to_record(line) as l (id uuid, account_id uuid, actor_type text, actor_account_id uuid, actor_key_id uuid,
                                     action text, target_resource_id text, payload jsonb, ip_address text, user_agent text)
    returning id into written;
    return written;
end
$$;

-- Mails: writes one that an account gets once. It is good for so many seconds, and due at once. Null when the account has had it.
create function write_mail_once(template text, account uuid, details jsonb, good_for double precision) returns uuid language plpgsql as $$
declare
    written uuid;
begin
    insert into emails (id, template, account_id, details, expires_at)
    values (uuid_v7(), write_mail_once.template, account, write_mail_once.details, now() + make_interval(secs => good_for))
    on conflict do nothing
    returning id into written;
    return written;
end
$$;

-- Sessions: ends an operation without its session, which has ended. As a volatile function it sees also the operation of a claim for
-- which the statement that ends the session had to wait. Answers where its outcome is waited for; null when it had ended before.
create function end_operation(operation uuid, outcome jsonb) returns text language plpgsql as $$
declare
    waits_at text;
begin
    update intents i set status = 'done', outcome = end_operation.outcome, sealed = null, done_at = now()
    where i.id = operation and i.status <> 'done' returning reply_channel into waits_at;
    return waits_at;
end
$$;

-- A worker looks which of its sessions have ended, and no job says so any more.
delete from apalis.jobs where job_type like 'browser:%';
