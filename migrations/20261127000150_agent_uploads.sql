-- A step can upload a file that is attached to the agent session. Earlier rows satisfy the wider constraint, so they are not checked.
-- squawk-ignore-file ban-drop-constraint
alter table agent_steps drop constraint agent_steps_kind_check;
alter table agent_steps add constraint agent_steps_kind_check check (kind in (
    'navigate', 'tap', 'type', 'press', 'select', 'upload', 'scroll', 'wait', 'capture', 'extract', 'back', 'reload'
)) not valid;
