-- An order is confirmed, and its event written, by one statement with parameters that any driver can run.
-- Prints a line of JSON for each event, also for those that were rolled back.

\set ON_ERROR_STOP on
\set QUIET on
\pset tuples_only on
\pset format unaligned
set client_min_messages = warning;
\set service `echo "${SERVICE:-order-service}"`
\ir uuid7.sql

create table if not exists example_order (
    id           uuid    primary key,
    customer_id  uuid    not null,
    total_amount numeric not null,
    currency     text    not null,
    status       text    not null,
    revision     integer not null
);

-- $1 order, $2 service, $3 traceparent, $4 whether the caller is going to commit, which is only printed.
--
-- The update locks the order until the end of the transaction, and only after that does the insert draw an id: so the
-- ids of an order's events go up in the order of its changes. Where no row was updated, none is written. A function as
-- volatile as outbox_uuid7() keeps PostgreSQL from dissolving the CTE that calls it, so column and payload get one id.
prepare confirm_order (uuid, text, text, boolean) as
with confirmed as (
    update example_order set status = 'confirmed', revision = revision + 1
    where id = $1
    returning *
), event as (
    select public.outbox_uuid7() as event_id, id::text as order_id, customer_id, total_amount, currency, revision
    from confirmed
)
insert into outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key, headers)
select event_id, 'Order', order_id, 'order.confirmed.v1',
    jsonb_build_object(
        'event_id', event_id,
        'event_type', 'order.confirmed.v1',
        'occurred_at', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'aggregate_type', 'Order',
        'aggregate_id', order_id,
        'order_id', order_id,
        'customer_id', customer_id,
        'total_amount', total_amount::text,
        'currency', currency,
        'revision', revision),
    $2 || '.order.confirmed', order_id, jsonb_build_object('traceparent', $3)
from event
returning json_build_object('committed', $4, 'event_id', event_id, 'event_type', event_type, 'topic', topic,
    'key', partition_key, 'headers', headers, 'payload', payload);

-- What a service has from its caller: which order, and the trace of the request.
select gen_random_uuid() as first, gen_random_uuid() as second,
    '00-' || md5(gen_random_uuid()::text) || '-' || left(md5(random()::text), 16) || '-01' as traceparent \gset
insert into example_order (id, customer_id, total_amount, currency, status, revision)
values (:'first', gen_random_uuid(), 19.90, 'EUR', 'new', 0), (:'second', gen_random_uuid(), 120.00, 'EUR', 'new', 0);

begin;
execute confirm_order(:'first', :'service', :'traceparent', true);
commit;

begin;
execute confirm_order(:'first', :'service', :'traceparent', false);
rollback;

begin;
execute confirm_order(:'second', :'service', :'traceparent', true);
savepoint before_the_last_step;
execute confirm_order(:'first', :'service', :'traceparent', false);
rollback to savepoint before_the_last_step;
execute confirm_order(:'first', :'service', :'traceparent', true);
commit;
