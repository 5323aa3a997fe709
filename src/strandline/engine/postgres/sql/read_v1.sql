-- A page of events in one snapshot: first a row with the position and id of the head, then at most p_limit events of
-- (p_after, p_until] that match one of the items (no items: every event), in order. What has no tag is looked up by type:
-- as a range of pairs, for which only event_by_type has the order.
create or replace function read_v1(
    p_after bigint, p_until bigint, p_limit bigint, p_backwards boolean,
    i_tags text[], i_types text[], i_excluded text[]
)
returns table (
    "position" bigint, type text, data bytea, tags text, stream text, subject text, id bytea, metadata bytea,
    recorded_at bigint
)
language plpgsql stable
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_until bigint;
begin
    select e.position, uuid_send(e.id) into position, id from event e order by e.position desc limit 1;
    position := coalesce(position, 0);
    v_until := least(p_until, position);
    return next;
    if i_tags is null and p_backwards then
        return query
        select e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
        from event e where e.position > p_after and e.position <= v_until
        order by e.position desc limit p_limit;
    elsif i_tags is null then
        return query
        select e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
        from event e where e.position > p_after and e.position <= v_until
        order by e.position limit p_limit;
    elsif not p_backwards and '' <> all (i_tags) and array_position(i_types, null) is null
        and strpos(array_to_string(i_tags, ''), E'\n') = 0 then
        -- One tag and given types, which is what most decisions ask for: there is nothing to find out.
        return query
        select e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
        from (
            select distinct hit.position
            from unnest(i_tags, i_types) i (tag, types)
            cross join lateral unnest(string_to_array(i.types, E'\n')) t (type)
            cross join lateral (
                select p.position from posting p
                where p.tag = i.tag and p.type = t.type and p.position > p_after and p.position <= v_until
                order by p.position limit p_limit
            ) hit
            order by hit.position limit p_limit
        ) found
        join event e on e.position = found.position
        order by e.position;
    elsif p_backwards then
        return query
        select e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
        from (
            select distinct hit.position
            from seeks_v1(i_tags, i_types, i_excluded) s
            cross join lateral (
                (select p.position from posting p
                where s.tag <> '' and p.tag = s.tag and p.type = s.type and p.position > p_after and p.position <= v_until
                    and (s.others is null or not exists (
                        select from unnest(s.others) o (tag)
                        where not exists (
                            select from posting q where q.tag = o.tag and q.type = p.type and q.position = p.position
                        )
                    ))
                order by p.position desc limit p_limit)
                union all
                (select e.position from event e
                where s.tag = '' and (e.type, e.position) > (s.type, p_after) and (e.type, e.position) <= (s.type, v_until)
                order by e.type desc, e.position desc limit p_limit)
            ) hit
            order by hit.position desc limit p_limit
        ) found
        join event e on e.position = found.position
        order by e.position desc;
    else
        return query
        select e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
        from (
            select distinct hit.position
            from seeks_v1(i_tags, i_types, i_excluded) s
            cross join lateral (
                (select p.position from posting p
                where s.tag <> '' and p.tag = s.tag and p.type = s.type and p.position > p_after and p.position <= v_until
                    and (s.others is null or not exists (
                        select from unnest(s.others) o (tag)
                        where not exists (
                            select from posting q where q.tag = o.tag and q.type = p.type and q.position = p.position
                        )
                    ))
                order by p.position limit p_limit)
                union all
                (select e.position from event e
                where s.tag = '' and (e.type, e.position) > (s.type, p_after) and (e.type, e.position) <= (s.type, v_until)
                order by e.type, e.position limit p_limit)
            ) hit
            order by hit.position limit p_limit
        ) found
        join event e on e.position = found.position
        order by e.position;
    end if;
end
$$;
