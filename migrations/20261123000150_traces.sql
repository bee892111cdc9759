-- What asked for it, as a part of a trace (W3C Trace Context), where traces are told: so that what a worker does stands below the request.
alter table intents add column trace_parent text;
alter table agent_turns add column trace_parent text;
