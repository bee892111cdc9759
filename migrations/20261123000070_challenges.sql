-- Challenges: what pages asked to find out whether whoever visits them is a person.

create table challenges (
    id uuid primary key,
    session_id uuid not null references sessions (id) on delete cascade,
    type text not null,
    confidence double precision not null check (confidence between 0 and 1),
    -- How it was told, in our own words.
    detail text not null,
    detected_at timestamptz not null default now(),
    -- How and when it ended, after which its session went on. One whose session ended before it has neither.
    outcome text check (outcome in ('resolved', 'disappeared')),
    ended_at timestamptz,
    constraint challenges_end_somehow check ((outcome is null) = (ended_at is null)),
    constraint challenges_type_check check (type in (
        'cloudflare_turnstile', 'cloudflare_interstitial', 'recaptcha_v2', 'recaptcha_v3', 'hcaptcha', 'arkose_funcaptcha', 'geetest',
        'datadome', 'perimeterx', 'akamai', 'imperva', 'kasada', 'aws_waf', 'generic'))
);

create index challenges_session_id_idx on challenges (session_id);

-- The challenge by which a session is paused, as its customer is shown it. It stands in the session's row, so that a claim finds it
-- where it looks anyway.
alter table sessions add column challenge jsonb;
