-- The condition that was made anew holds for all rows, whose changes nobody waits for while they are looked at.
alter table sessions validate constraint sessions_claim_matches_status;
