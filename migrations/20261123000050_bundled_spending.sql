-- What an account has spent, in the month that is named, of the key that the deployment pays for. Rows of turns go before a month is
-- over, so that it cannot be summed up from them.
create table bundled_model_spending (
    account_id uuid primary key references accounts (id),
    -- The first of the month, in UTC.
    month date not null,
    cost_cents double precision not null
);
