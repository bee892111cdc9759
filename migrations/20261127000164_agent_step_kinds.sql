-- Steps of gestures, fields, pages, dialogs and the position. Earlier rows satisfy the wider constraint, so they are not checked.
-- squawk-ignore-file ban-drop-constraint
alter table agent_steps drop constraint agent_steps_kind_check;
alter table agent_steps add constraint agent_steps_kind_check check (kind in (
    'navigate', 'tap', 'check', 'type', 'fill', 'press', 'select', 'upload', 'drag', 'swipe', 'hover', 'scroll', 'wait', 'capture',
    'extract', 'dialog', 'activate_page', 'close_page', 'set_location', 'back', 'forward', 'reload'
)) not valid;
