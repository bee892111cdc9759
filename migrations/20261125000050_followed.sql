-- Whether somebody had asked what happens on the account, when somebody last claimed the session or ended an operation of it: where nobody
-- has, an operation calls no function that would look. A session that was not claimed yet says yes, as does one that is
-- claimed by whoever knows nothing of this.
alter table sessions add column is_followed boolean not null default true;

drop trigger sessions_notify_operation on sessions;
create trigger sessions_notify_operation after update of status on sessions for each row
when (new.is_followed and (old.status = 'busy') <> (new.status = 'busy'))
execute function notify_of_operation();
