-- outbox_uuid7() makes event ids: UUIDs of version 7 (RFC 9562, section 5.7), 48 bits of Unix time in milliseconds and
-- 74 bits of chance. From PostgreSQL 18 on, uuidv7() does the same.
--
-- gen_random_uuid() is a UUID of version 4, whose variant bits are right already. Its first six bytes give way to the
-- time, and two bits turn the version from 0100 to 0111. clock_timestamp(), because now() stands still in a
-- transaction; floor(), because a cast would round into the future.
create or replace function public.outbox_uuid7() returns uuid
language sql volatile parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                placing substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;
