-- What a log needs and does not have.
select name from unnest(%(parts)s::text[]) name
where to_regclass(%(schema)s || '.' || name) is null
    and not exists (
        select from pg_proc p where p.pronamespace = to_regnamespace(%(schema)s) and p.proname = name
    )
