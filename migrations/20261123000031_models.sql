-- What models have taken for a turn whose message they read. The row is written before a model is asked for the first time, so that also
-- a turn whose worker dies meanwhile can be told of; the sums stand in it from the moment at which an answer came.

create table agent_model_uses (
    turn_id uuid primary key references agent_turns (id) on delete cascade,
    -- Who asks: of two that are given the turn, one does.
    asker uuid not null,
    provider text not null check (provider in ('anthropic', 'openai')),
    model text not null,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cache_write_tokens bigint not null default 0,
    cache_read_tokens bigint not null default 0,
    cost_cents double precision not null default 0
);
