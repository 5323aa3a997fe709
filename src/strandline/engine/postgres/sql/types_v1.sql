-- The types of the events that carry a tag ('': of all events): one look-up per type, however many events there are.
create or replace function types_v1(p_tag text) returns table (type text)
language plpgsql stable parallel safe
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    if p_tag = '' then
        return query
        with recursive present (type) as (
            (select e.type from event e order by e.type limit 1)
            union all
            select (select e.type from event e where e.type > present.type order by e.type limit 1)
            from present
            where present.type is not null
        )
        select present.type from present where present.type is not null;
        return;
    end if;
    return query
    with recursive present (type) as (
        (select p.type from posting p where p.tag = p_tag order by p.type limit 1)
        union all
        select (select p.type from posting p where p.tag = p_tag and p.type > present.type order by p.type limit 1)
        from present
        where present.type is not null
    )
    select present.type from present where present.type is not null;
end
$$;
