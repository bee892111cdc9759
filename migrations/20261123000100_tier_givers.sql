-- What an account has its tier of, such as the card provider's id of a subscription: when that ends it takes back what it gave, and
-- nothing that somebody else has given since. Null when nobody did who would take it back.
alter table accounts add column tier_given_by text;
