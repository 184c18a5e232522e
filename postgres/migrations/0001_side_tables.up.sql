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
    cluster_id  text,                              -- of the Kafka it belongs to, in the row without a group
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
    waiting   jsonb,                               -- those of them that nothing else shows, see relay.Waiting
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

-- Events that Kafka refused, one by one. Their rows stay unpublished in the outbox table. The row of outbox is that
-- without a group, whatever group ships the topic.
create table {{schema}}.parked (
    outbox         integer not null references {{schema}}.outbox on delete cascade,
    id             bigint  not null,               -- of the row in the outbox table
    event_id       uuid    not null,
    topic          text    not null,
    key            text    not null,
    aggregate_type text    not null,
    aggregate_id   text    not null,
    event_type     text    not null,
    scope          text    not null check (scope in ('event', 'key', 'aggregate')),  -- what waits with it
    class          text    not null,               -- of the failure
    reason         text    not null,
    attempts       integer not null,
    first_at       timestamptz not null default clock_timestamp(),
    parked_at      timestamptz not null default clock_timestamp(),  -- the latest attempt
    request        text check (request in ('retry', 'discard')),    -- what an operator wants done
    requested_by   text,
    requested_at   timestamptz,
    request_reason text,
    primary key (outbox, id)
);

-- Keys may be longer than an index takes.
create index parked_key on {{schema}}.parked (outbox, hashtext(key)) where scope = 'key';
create index parked_aggregate on {{schema}}.parked (outbox, hashtext(aggregate_id)) where scope = 'aggregate';
create index parked_event on {{schema}}.parked (outbox, id) where scope = 'event';
create index parked_request on {{schema}}.parked (outbox, id) where request is not null;

-- What an operator has made wait. Topic and key are null where the pause is wider.
create table {{schema}}.pause (
    outbox    integer not null references {{schema}}.outbox on delete cascade,
    id        integer generated always as identity,
    topic     text,
    key       text,
    reason    text    not null,
    paused_by text    not null,
    paused_at timestamptz not null default clock_timestamp(),
    primary key (outbox, id)
);

-- Topics that an operator wants looked at again now, though relays have found them missing or forbidden.
create table {{schema}}.topic_look (
    outbox   integer not null references {{schema}}.outbox on delete cascade,
    topic    text    not null,
    asked_at timestamptz not null default clock_timestamp(),
    primary key (outbox, topic)
);

-- Every act of an operator, and what relays did on one's word. It outlives the outbox's registration.
create table {{schema}}.audit (
    id     bigint generated always as identity primary key,
    outbox text   not null,                        -- the table, as in outbox.name
    at     timestamptz not null default clock_timestamp(),
    actor  text   not null,                        -- who
    act    text   not null,                        -- what: retry, discard, discarded, pause, resume, release,
                                                   -- accept-cluster
    target jsonb  not null,                        -- of what: topic, key, filters, ids; of a discarded event all of it
    events bigint,                                 -- how many
    reason text                                    -- why
);

-- Wakes relays that sleep: a trigger of the outbox table calls it, see migrate --wake-up. A relay that sleeps holds a
-- shared lock, so that the exclusive one can't be had. It is taken and given back in one expression, between whose
-- parts nothing can end the statement, and tried twice, since another writer may have it for that moment. No snapshot
-- is involved, so it is the same at every isolation level. Whatever goes wrong, the writer's transaction goes on.
create function {{schema}}.wake_up() returns trigger language plpgsql as $$
declare
    class constant int := {{wake_class}};
    key   constant int := tg_relid::pg_catalog.int4;
begin
    if not (pg_catalog.pg_try_advisory_lock(class, key) and pg_catalog.pg_advisory_unlock(class, key))
       and not (pg_catalog.pg_try_advisory_lock(class, key) and pg_catalog.pg_advisory_unlock(class, key))
       and pg_catalog.pg_notification_queue_usage() operator(pg_catalog.<) 0.5 then
        perform pg_catalog.pg_notify(pg_catalog.concat('posthaste_', tg_relid), '');
    end if;
    return null;
exception when others then
    return null;
end
$$;
