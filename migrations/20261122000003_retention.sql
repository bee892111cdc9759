-- What has ended is kept for a term, and then found by its end.

-- A result is wiped soon after it was answered: the index holds what is still to be wiped, and nothing else. Operations that are
-- older than their term are found by their ids, which begin with their time.
create index intents_result_idx on intents (done_at) where outcome is not null;
drop index intents_done_at_idx;

-- A session goes with its operations.
create index sessions_ended_idx on sessions (updated_at) where status in ('destroyed', 'errored');
create index intents_session_id_idx on intents (session_id);
drop index intents_open_by_session_idx;

-- A worker goes long before the sessions that it had, of which none lives any more: the column then says no more than where
-- they were. A key that forgets it would need an index of all sessions, which each operation would have to keep.
alter table sessions drop constraint sessions_worker_id_fkey;

create index team_invites_accepted_at_idx on team_invites (accepted_at) where accepted_at is not null;
create index emails_invite_id_idx on emails (invite_id) where invite_id is not null;
create index oauth_clients_revoked_at_idx on oauth_clients (revoked_at) where revoked_at is not null;
create index oauth_tokens_client_id_idx on oauth_tokens (client_id);
create index webhook_endpoints_deleted_at_idx on webhook_endpoints (deleted_at) where deleted_at is not null;
create index usage_counts_day_idx on usage_counts (day);
