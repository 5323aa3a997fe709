-- Does what the `$retagged` events after a position say: sets the present tags, keeps the tags as appended, moves index
-- entries, and adds the retag to the index under '$changed:' and each tag that a changed event has had before or has now,
-- its stream and subject included. So a condition that asks for a tag finds the retags that may concern it.
-- Only append_v3 calls it, in its critical section.
create or replace function retag_v2(p_after bigint) returns void
language plpgsql
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    c_retag bigint[]; -- one element per change
    c_position bigint[];
    c_removed text[];
    c_added text[];
begin
    select array_agg(n.position), array_agg(c.position),
        array_agg(array_to_string(c.removed, E'\n')), array_agg(array_to_string(c.added, E'\n'))
    into c_retag, c_position, c_removed, c_added
    from event n
    cross join lateral jsonb_to_recordset(convert_from(n.data, 'UTF8')::jsonb -> 'changes')
        as c (position bigint, removed text[], added text[])
    where n.type = '$retagged' and n.position > p_after;

    insert into appended_tags (position, tags)
    select e.position, e.tags from unnest(c_position) c (position) join event e on e.position = c.position
    on conflict do nothing;

    update event e
    set tags = coalesce((
        select string_agg(t.tag, E'\n' order by t.tag collate "C")
        from (
            (select unnest(string_to_array(e.tags, E'\n')) except select unnest(string_to_array(c.removed, E'\n')))
            union select unnest(string_to_array(c.added, E'\n'))
        ) t (tag)
    ), '')
    from unnest(c_position, c_removed, c_added) c (position, removed, added)
    where e.position = c.position;

    delete from posting p
    using unnest(c_position, c_removed) c (position, removed)
        join event e on e.position = c.position
        cross join lateral unnest(string_to_array(c.removed, E'\n')) t (tag)
    where p.tag = t.tag and p.type = e.type and p.position = e.position;

    insert into posting (tag, type, position)
    select t.tag, e.type, e.position
    from unnest(c_position, c_added) c (position, added)
    join event e on e.position = c.position
    cross join lateral unnest(string_to_array(c.added, E'\n')) t (tag);

    insert into posting (tag, type, position)
    select distinct '$changed:' || t.tag, '$retagged', c.retag
    from unnest(c_retag, c_position, c_removed) c (retag, position, removed)
    join event e on e.position = c.position
    cross join lateral unnest(
        array_remove(array['$stream:' || e.stream, '$subject:' || e.subject], null)
        || string_to_array(e.tags, E'\n') || string_to_array(c.removed, E'\n')
    ) t (tag);
end
$$;
