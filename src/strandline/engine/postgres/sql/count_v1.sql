-- How many events match one of the items, each counted once.
create or replace function count_v1(i_tags text[], i_types text[], i_excluded text[]) returns bigint
language plpgsql stable
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    return (
        select count(distinct hit.position)
        from seeks_v1(i_tags, i_types, i_excluded) s
        cross join lateral (
            select p.position from posting p
            where s.tag <> '' and p.tag = s.tag and p.type = s.type and (s.others is null or not exists (
                select from unnest(s.others) o (tag)
                where not exists (
                    select from posting q where q.tag = o.tag and q.type = p.type and q.position = p.position
                )
            ))
            union all
            select e.position from event e where s.tag = '' and e.type = s.type
        ) hit
    );
end
$$;
