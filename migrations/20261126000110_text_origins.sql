-- A text that a model wants entered and that no message of the customer contains needs approval on most origins. Where it needs none is known
-- when the step is planned, and is looked at when it runs, which may be in a later turn. The version before leaves the column empty.
alter table agent_steps add column sealed_text_origins bytea;
