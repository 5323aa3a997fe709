-- What a log needs and does not have.
select name from unnest(%s::text[]) name
where to_regclass({literal} || '.' || name) is null
    and not exists (
        select from pg_proc p where p.pronamespace = to_regnamespace({literal}) and p.proname = name
    )
