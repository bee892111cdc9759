-- Whoever takes over interrupts the turn that is under way, also when they have handed back before its next step. So the agent session
-- remembers which that was.
alter table agent_sessions add column interrupted uuid;
