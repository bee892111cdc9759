-- Whoever watches by an OAuth token is let in for as long as that is good, and the token's row may be gone before its viewer is. And a
-- controller's ticket says whether it may change who drives, as whoever asked for it might, and from where they asked, for the audit log.

alter table live_tickets
    -- When what it was asked for by expires, where no row says so.
    add column credential_expires_at timestamptz,
    add column takes_over boolean not null default false,
    add column ip_address text,
    add column user_agent text;
