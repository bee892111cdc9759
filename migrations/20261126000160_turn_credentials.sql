-- A turn of an agent session goes on only while the credential that sent its message may still act: it is judged before each step, as it
-- is for live views. The turns of the version before have no credential, and go on.
alter table agent_turns
    add column acting_account_id uuid,
    add column api_key_id uuid,
    add column web_session_id uuid,
    add column oauth_client_id uuid,
    add column credential_expires_at timestamptz;

-- Whether what an admin of the account could do with this credential since then, the credential can still do.
create function credential_holds(owner uuid, acting uuid, key uuid, web_session uuid, client uuid, credential_until timestamptz,
                                 since timestamptz)
returns boolean language sql stable as $$
    select exists (
        select from accounts owner
        join accounts actor on actor.id = $2 and actor.status = 'active'
        left join api_keys k on k.id = $3
        left join web_sessions w on w.id = $4
        left join oauth_clients c on c.id = $5
        left join accounts payer on payer.id = coalesce(k.account_id, c.account_id)
        where owner.id = $1 and owner.status = 'active'
          and k.revoked_at is null and coalesce(k.expires_at > now(), true)
          and w.revoked_at is null and coalesce(w.expires_at > now(), true)
          and c.revoked_at is null and coalesce($6 > now(), true)
          and (payer.tier is distinct from 'free' or k.kind is not distinct from 'device')
          and (actor.id = owner.id or exists (
                   select from team_members m
                   where m.owner_account_id = owner.id and m.member_account_id = actor.id and m.role = 'admin' and m.accepted_at <= $7)))
$$;

create or replace function live_right_holds(session uuid, acting uuid, key uuid, web_session uuid, client uuid,
                                            credential_until timestamptz, since timestamptz)
returns boolean language sql stable as $$
    select exists (select from sessions s where s.id = $1 and credential_holds(s.account_id, $2, $3, $4, $5, $6, $7))
$$;

create function turn_credential_holds(turn uuid, owner uuid)
returns boolean language sql stable as $$
    select t.acting_account_id is null
           or credential_holds($2, t.acting_account_id, t.api_key_id, t.web_session_id, t.oauth_client_id, t.credential_expires_at, t.created_at)
    from agent_turns t where t.id = $1
$$;
