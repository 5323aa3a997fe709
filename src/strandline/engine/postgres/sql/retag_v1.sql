-- Does what the `$retagged` events after a position say: sets the present tags, keeps the tags as appended, moves index
-- entries, and notes under each tag that it was given or taken. Only append_v1 calls it, in its critical section.
create function retag_v1(p_after bigint) returns void
language plpgsql
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_change record;
begin
    for v_change in
        select n.position as retag, c.position, c.removed, c.added
        from posting p
        join event n on n.position = p.position
        cross join lateral jsonb_to_recordset(convert_from(n.data, 'UTF8')::jsonb -> 'changes')
            as c (position bigint, removed text[], added text[])
        where p.tag = '' and p.type = '$retagged' and p.position > p_after
        order by n.position
    loop
        insert into appended_tags (position, tags)
        select e.position, e.tags from event e where e.position = v_change.position
        on conflict do nothing;

        update event e
        set tags = coalesce((
            select string_agg(t.tag, E'\n' order by t.tag collate "C")
            from (
                (select unnest(string_to_array(e.tags, E'\n')) except select unnest(v_change.removed))
                union select unnest(v_change.added)
            ) t (tag)
        ), '')
        where e.position = v_change.position;

        delete from posting p
        using event e
        where e.position = v_change.position
            and p.tag = any (v_change.removed) and p.type = e.type and p.position = e.position;

        insert into posting (tag, type, position)
        select t.tag, e.type, e.position
        from event e cross join lateral unnest(v_change.added) t (tag)
        where e.position = v_change.position;

        insert into posting (tag, type, position)
        select '$changed:' || t.tag, '$retagged', v_change.retag
        from unnest(v_change.removed || v_change.added) t (tag)
        on conflict do nothing;
    end loop;
end
$$;
