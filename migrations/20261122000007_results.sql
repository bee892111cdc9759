-- What an operation that was done came to: the body of its answer, but for a capture's content. Its bytes are passed on as they
-- were written, members in their order, so that it is json: jsonb would keep something else of it, and read it all.
alter table intents add column result json;
