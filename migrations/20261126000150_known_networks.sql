-- Wrong passwords are counted by account and network. A network from which the account owner has signed in before has a count of its own,
-- so that strangers cannot lock the owner out.
create table sign_in_networks (
    account_id uuid not null references accounts,
    network text not null,
    last_used_at timestamptz not null default now(),
    primary key (account_id, network)
);
create index sign_in_networks_by_use on sign_in_networks (last_used_at);

-- The network of a signup. A verification link that is requested from another network does not keep the password of the signup: the
-- owner of the address may not be the person who chose it.
alter table accounts add column signup_network text;
