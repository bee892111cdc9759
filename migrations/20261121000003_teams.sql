-- Several people on one account.

-- Every account has one, made with it.
create table teams (
    id uuid primary key,
    owner_account_id uuid not null references accounts (id),
    name text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

create unique index teams_owner_account_id_key on teams (owner_account_id);

-- Ids are UUIDs of version 7: milliseconds, then the version, then chance.
insert into teams (id, owner_account_id, name)
select (lpad(to_hex((extract(epoch from created_at) * 1000)::bigint), 12, '0')
           || '7' || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid, id, name
from accounts;

create table team_members (
    id uuid primary key,
    owner_account_id uuid not null references accounts (id),
    member_account_id uuid not null references accounts (id),
    role text not null check (role in ('member', 'admin')),
    invited_by_account_id uuid not null references accounts (id),
    invited_at timestamptz not null,
    accepted_at timestamptz not null default now(),
    constraint team_members_are_others check (owner_account_id <> member_account_id)
);

create unique index team_members_pair_key on team_members (owner_account_id, member_account_id);
create index team_members_member_account_id_idx on team_members (member_account_id, id desc);

create table team_invites (
    id uuid primary key,
    owner_account_id uuid not null references accounts (id),
    invitee_email text not null,
    -- As accounts' addresses are compared.
    invitee_email_key text not null,
    role text not null check (role in ('member', 'admin')),
    -- SHA-256 of the token, which is made when the mail is.
    token_hash bytea,
    invited_by_account_id uuid not null references accounts (id),
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    accepted_at timestamptz
);

create unique index team_invites_token_hash_key on team_invites (token_hash);
-- Whoever invites somebody again replaces the invite before.
create unique index team_invites_pending_key on team_invites (owner_account_id, invitee_email_key) where accepted_at is null;
create index team_invites_expires_at_idx on team_invites (expires_at) where accepted_at is null;

-- The invite that a mail is about: its reader need not have an account.
alter table emails add column invite_id uuid references team_invites (id) on delete cascade;
alter table emails drop constraint emails_has_a_recipient;
alter table emails add constraint emails_has_a_recipient
    check (account_id is not null or email_key is not null or invite_id is not null);

-- The keys that go with their maker.
create index api_keys_made_by_others_idx on api_keys (account_id, created_by_account_id)
    where revoked_at is null and created_by_account_id <> account_id;
