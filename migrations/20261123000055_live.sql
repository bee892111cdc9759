-- The live view: where a worker shows its browsers, and the claim of a person who acts in one.

alter table workers
    -- Where api processes reach it, as `address:port`; null where there is nothing to be seen.
    add column live_address text,
    -- SHA-256 of the certificate that it has there; null on a loopback address, where it has none.
    add column live_fingerprint bytea;

alter table intents drop constraint intents_kind_check;
alter table intents add constraint intents_kind_check check (kind in (
    'open', 'navigate', 'interact', 'wait', 'state_capture', 'capture', 'extract', 'search', 'login', 'gui_input'
));
