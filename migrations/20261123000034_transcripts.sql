-- What an agent session has said and kept so far: counted as it grows, so that a message need not count it all again.

alter table agent_sessions
    -- Messages that it took.
    add column turns integer not null default 0,
    -- Bytes of what its turns and their receipts keep, as they are sealed.
    add column kept_bytes bigint not null default 0;
