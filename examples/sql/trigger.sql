-- Events for a table that nobody may touch: triggers on legacy_order write them, in the transaction of every change. To
-- be run by the owner of that table, who must be allowed to insert into outbox_event. Running it again renews it all.
-- README.md beside this file says what is promised, and what no trigger sees.

\set ON_ERROR_STOP on
\set QUIET on
set client_min_messages = warning;
\set service `echo "${SERVICE:-order-service}"`
-- One topic for all that happens to an order: what is in several topics has no order.
select :'service' || '.order' as topic \gset

begin;
-- New triggers wait for open writers of the table, and new writers wait behind them. So not for long: rather try again.
set local lock_timeout = '2s';

\ir uuid7.sql

-- The function has the rights of its owner, so the old program needs none on the outbox; hence the fixed search_path.
-- The time zone is fixed, too: else times in a payload would be in that of the session that happens to write.
--
-- There is no exception handler, and there must be none: when an event can't be written, the change of the order fails
-- with it. A change without its event is what an outbox is there to prevent.
create or replace function public.outbox_legacy_order() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
declare
    types constant text[] := case
        when tg_op = 'INSERT' then '{order.created.v1}'
        when tg_op = 'DELETE' then '{order.deleted.v1}'
        when new.id = old.id then '{order.changed.v1}'
        else '{order.deleted.v1,order.created.v1}'  -- under another id, readers know it as another order
    end;
    type  text;
    event uuid;
    o     record;
begin
    foreach type in array types loop
        event := public.outbox_uuid7();
        if type = 'order.deleted.v1' then o := old; else o := new; end if;
        -- Columns by name, and only those that are for others to read: never the whole row, with the customer's address
        -- and whatever column comes next. Ids and amounts are texts: JSON numbers lose digits in many languages.
        insert into public.outbox_event
            (event_id, aggregate_type, aggregate_id, event_type, payload, topic, partition_key)
        values (event, 'Order', o.id::text, type,
            jsonb_build_object(
                'event_id', event,
                'event_type', type,
                'occurred_at', clock_timestamp(),
                'aggregate_type', 'Order',
                'aggregate_id', o.id::text,
                'order_id', o.id::text,
                'status', o.status,
                'total', o.total::text,
                'currency', o.currency,
                'placed_at', o.placed_at),
            tg_argv[0], o.id::text);
    end loop;
    return null;
end
$$;

-- Whoever may execute the function could hang it on a table of his own and write events of orders that are none.
revoke execute on function public.outbox_legacy_order() from public;

-- A truncate fires no trigger for its rows: they would be gone without an event.
create or replace function public.outbox_refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'truncate %: its rows would be gone without an event', tg_relid::regclass
        using hint = 'Use delete. To do without the events, disable the trigger ' || quote_ident(tg_name) || ' before.';
end
$$;

-- Of several triggers the one whose name sorts first fires first. If another one changes the row again, the event of
-- the first change is then written before that of the second.
drop trigger if exists _outbox_insert_delete on public.legacy_order;
create trigger _outbox_insert_delete after insert or delete on public.legacy_order
    for each row
    execute function public.outbox_legacy_order(:'topic');

-- No event when nothing changed that the event tells. (old.* is distinct from new.* would compare all columns, and fail
-- on those of type json.)
drop trigger if exists _outbox_update on public.legacy_order;
create trigger _outbox_update after update on public.legacy_order
    for each row
    when ((old.id, old.status, old.total, old.currency, old.placed_at)
        is distinct from (new.id, new.status, new.total, new.currency, new.placed_at))
    execute function public.outbox_legacy_order(:'topic');

drop trigger if exists _outbox_truncate on public.legacy_order;
create trigger _outbox_truncate before truncate on public.legacy_order
    for each statement
    execute function public.outbox_refuse_truncate();
commit;
