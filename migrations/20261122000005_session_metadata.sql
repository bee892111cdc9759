-- Customers' data is bounded by its bytes and passed on as it was written. As jsonb a short number such as 1e300 would be
-- read back with three hundred digits.
alter table sessions alter column metadata type json using metadata::json;
