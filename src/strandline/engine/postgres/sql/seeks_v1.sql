-- Query items as ranges of an index: each row is a tag ('': none, only the type) and a type to look up, and the tags that a hit must also have.
-- Of several tags the rarest is looked up. An item is its tags ('' if none), its types (null: any) and the types it
-- excludes (null: not even the store's own), each joined by newlines.
create or replace function seeks_v1(p_tags text[], p_types text[], p_excluded text[])
returns table (item bigint, tag text, type text, others text[])
language plpgsql stable parallel safe
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    -- With one tag and given types, which is what most decisions ask for, there is nothing to find out.
    if array_position(p_types, null) is null and strpos(array_to_string(p_tags, ''), E'\n') = 0 then
        return query
        select u.item, u.tags, t.type, null::text[]
        from unnest(p_tags, p_types) with ordinality u (tags, types, item)
        cross join lateral unnest(string_to_array(u.types, E'\n')) t (type);
        return;
    end if;
    return query
    select i.item, rarest.tag, wanted.type,
        case when cardinality(i.tags) > 1 then array_remove(i.tags, rarest.tag) end
    from (
        select u.item,
            case u.tags when '' then array[''] else string_to_array(u.tags, E'\n') end as tags,
            string_to_array(u.types, E'\n') as types,
            string_to_array(u.excluded, E'\n') as excluded
        from unnest(p_tags, p_types, p_excluded) with ordinality u (tags, types, excluded, item)
    ) i
    cross join lateral (
        select t.tag from unnest(i.tags) t (tag)
        order by case when cardinality(i.tags) > 1 then (
            select count(*) from (select from posting p where p.tag = t.tag limit 128) few
        ) end
        limit 1
    ) rarest
    cross join lateral (
        select unnest(i.types) as type where i.types is not null
        union all
        select t.type from types_v1(rarest.tag) t
        where i.types is null
            and (i.excluded is null or (t.type not like '$%' and t.type <> all (i.excluded)))
    ) wanted;
end
$$;
