-- Open streams of timelines, so that an account can be limited in all processes together. A process that dies leaves its rows until
-- their lease ends.
create table timeline_streams (
    id uuid primary key,
    account_id uuid not null,
    until timestamptz not null
);

create index timeline_streams_account_id_idx on timeline_streams (account_id);
create index timeline_streams_until_idx on timeline_streams (until);
