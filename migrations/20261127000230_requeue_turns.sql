-- Time of the last batch: the requeues that are not done take turns.
alter table delivery_requeues add column batch_at timestamptz;
