-- Takes away what trigger.sql made, but for outbox_uuid7(), which others may use by now. Events already written stay.

\set ON_ERROR_STOP on
begin;
set local lock_timeout = '2s';
drop trigger _outbox_insert_delete on public.legacy_order;
drop trigger _outbox_update on public.legacy_order;
drop trigger _outbox_truncate on public.legacy_order;
drop function public.outbox_legacy_order();
drop function public.outbox_refuse_truncate();
commit;
