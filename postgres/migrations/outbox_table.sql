create table {{table}} (
    {{id}}              bigint generated always as identity primary key,
    {{event_id}}        uuid        not null unique,
    {{aggregate_type}}  text        not null,
    {{aggregate_id}}    text        not null,
    {{event_type}}      text        not null,
    {{payload}}         jsonb       not null,
    {{topic}}           text        not null,
    {{partition_key}}   text        not null,
    {{created_at}}      timestamptz not null default now(),
    {{published_at}}    timestamptz{{more}}
);
