-- Whether somebody may still see what a session's browser shows: who was let in, and whose links are good, is judged by one rule. What they
-- asked by has to hold, and who is on a team has to have been on it since: whoever comes back to one has to ask anew.
create function live_right_holds(session uuid, acting uuid, key uuid, web_session uuid, client uuid, credential_until timestamptz,
                                 since timestamptz)
returns boolean language sql stable as $$
    select exists (
        select from sessions s
        join accounts owner on owner.id = s.account_id and owner.status = 'active'
        join accounts actor on actor.id = $2 and actor.status = 'active'
        left join api_keys k on k.id = $3
        left join web_sessions w on w.id = $4
        left join oauth_clients c on c.id = $5
        left join accounts payer on payer.id = coalesce(k.account_id, c.account_id)
        where s.id = $1
          and k.revoked_at is null and coalesce(k.expires_at > now(), true)
          and w.revoked_at is null and coalesce(w.expires_at > now(), true)
          and c.revoked_at is null and coalesce($6 > now(), true)
          and (payer.tier is distinct from 'free' or k.kind is not distinct from 'device')
          and (actor.id = owner.id or exists (
                   select from team_members m
                   where m.owner_account_id = owner.id and m.member_account_id = actor.id and m.role = 'admin' and m.accepted_at <= $7)))
$$;
