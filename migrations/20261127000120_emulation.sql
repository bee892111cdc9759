-- Emulation of a session as the API shows it: null for the default, and without the values of extra headers. Those are sealed in the
-- intent that opens the browser or changes the emulation, until the intent is done. The version before leaves the column null.
alter table sessions add column emulation jsonb;

-- A change of the emulation is an operation without a kind of its own: it is `unknown` in `session.failed`. Every row has been held to
-- the smaller set, so none is checked again.
-- squawk-ignore-file ban-alter-domain-with-add-constraint, ban-drop-constraint
alter domain operation_kind drop constraint operation_kind_is_known;
alter domain operation_kind add constraint operation_kind_is_known
    check (value in ('open', 'navigate', 'interact', 'wait', 'state_capture', 'capture', 'extract', 'search', 'login', 'gui_input',
                     'unknown')) not valid;
