-- The side tables: what relays need to know of one another. One row of outbox for each outbox table they serve, and one
-- more for each group of its topics that has relays of its own.
create table {{schema}}.schema_version (
    version    integer     not null primary key,   -- a row for each migration that ran
    applied_at timestamptz not null default clock_timestamp()
);

create table {{schema}}.outbox (
    id          integer generated always as identity primary key,
    name        text    not null,                  -- the table, qualified and quoted
    topic_group text    not null default '',       -- '': the topics that no group has
    topics      text[],                            -- patterns of the group's topics
    lock_class  integer not null unique,           -- first half of its members' advisory lock keys
    created     boolean not null,                  -- migrate made the table, so down may drop it
    lanes       integer not null check (lanes between 1 and 1024 and lanes & (lanes - 1) = 0),
    next_lanes  integer check (next_lanes between 1 and 1024 and next_lanes & (next_lanes - 1) = 0),
    generation  bigint  not null default 1,        -- goes up when the number of lanes changes
    unique (name, topic_group),
    check ((topic_group = '') = (topics is null))
);

create table {{schema}}.member (
    id        integer generated always as identity primary key,
    outbox    integer not null references {{schema}}.outbox on delete cascade,
    name      text    not null,                    -- host and process, for people
    version   text    not null,
    session   boolean not null,                    -- its advisory lock tells whether it lives
    beat      bigint  not null default 0,          -- goes up with every beat
    beat_at   timestamptz not null default clock_timestamp(),
    joined_at timestamptz not null default clock_timestamp(),
    published bigint,                              -- events that it has shipped, as of its latest beat
    per_second double precision,                   -- of them, between its latest two beats
    held      integer not null default 0,          -- topics and keys that wait after a failure of their own
    trouble   text                                 -- why it makes no progress, null while it can
) with (fillfactor = 50);

create index member_outbox on {{schema}}.member (outbox);

create table {{schema}}.lane (
    outbox integer not null references {{schema}}.outbox on delete cascade,
    lane   integer not null,
    owner  integer,                                -- a member's id, null while free
    epoch  bigint  not null default 0,             -- goes up with every change of owner, never restarts
    primary key (outbox, lane)
) with (fillfactor = 50);
