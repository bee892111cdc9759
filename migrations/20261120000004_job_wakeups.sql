-- apalis wakes every worker of every queue on each insert. We notify the queue's own channel instead, when we enqueue.
drop trigger if exists notify_workers on apalis.jobs;
