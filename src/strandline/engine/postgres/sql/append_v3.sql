-- The one way to write: judges a batch of requests one after another, in one critical section, and writes those that
-- are accepted. Reads top-down: lock, look up ids, check conditions, judge, write, answer.
--
--   p_refused, p_now       refusals to count, and the time to record (null: the database's)
--   e_…                    the events of all requests in order, with the number of their request (from 1)
--   e_span                 of the first event of a request how many it has; of the others, how far that one is behind
--   i_newest_after, …      a summary: the greatest after, and whether there are rivals
--   i_…                    the items of what must not be in the log: of `unless_exists` (part 0, after 0) and of each
--                          part of a condition; rivals are the earlier events of this batch that the part matches
--   t_…                    the positions of sources that requests track; each must be newer than the one before it
--
-- Answers with the head that it found, and then with a row for each request that was not accepted: 'known' (an id is
-- at this position), 'exists', 'tracked' (the head is then the position of the source), 'beyond' (a position this log
-- has not reached) or 'conflict', with the event in question. The one answer 'judge' means that nothing was written, because a retag may concern a condition: the caller
-- must judge that, in a transaction in which it has called this function before.
create or replace function append_v3(
    p_refused bigint, p_now bigint,
    e_request int[], e_span int[], e_id uuid[], e_type text[], e_tags text[], e_stream text[], e_subject text[],
    e_metadata bytea[], e_condition text[], e_data bytea[],
    i_newest_after bigint, i_has_rivals boolean, i_request int[], i_part int[], i_after bigint[], i_rivals text[], i_tags text[], i_types text[], i_excluded text[],
    t_request int[], t_source text[], t_position bigint[]
)
returns table (
    request int, verdict text, part int, head bigint, first bigint, last bigint,
    "position" bigint, type text, data bytea, tags text, stream text, subject text, id bytea, metadata bytea,
    recorded_at bigint
)
language plpgsql security definer
set search_path from current set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    v_head bigint := 0;
    v_recorded_at bigint := 0;
    v_append bigint := 0;
    v_retag bigint := 0;
    v_has_known boolean := false;
    v_is_plain boolean;
    v_next bigint;
    v_request int := 0;
    v_refused int := 0; -- the request that was refused last
    v_hit bigint;
    v_row record;
    v_sources jsonb := '{}'; -- the newest positions of sources that this batch brings
    v_sources_before jsonb; -- the same without the request that is judged
    v_tracked bigint;
    v_positions bigint[]; -- of the events; null where the request is refused
    v_appends bigint[];
    v_known bigint[];
    v_after bigint;
    v_from bigint; -- after this begins what is new for conditions about a moment ago
    v_has_old boolean := false;
    n_tag text[]; -- the tags of what is new, as far as items ask for them
    n_position bigint[];
    c_item int[]; -- the items to look up
    c_tags text[];
    c_types text[];
    c_excluded text[];
    h_request int[]; -- what in the log matches a part: the first position
    h_part int[];
    h_position bigint[];
    r_request int[] := '{}'; -- who is refused, and why
    r_verdict text[] := '{}';
    r_part int[] := '{}';
    r_position bigint[] := '{}';
    r_head bigint[] := '{}';
begin
    -- In a stricter isolation level the checks below would not see what was committed while we waited for the lock.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'appends need isolation level read committed, this is %', current_setting('transaction_isolation')
            using errcode = 'invalid_transaction_state';
    end if;
    if p_now not between -62135596800000000 and 253402300799999999 then
        raise exception 'the time % is not between the years 1 and 9999', p_now using errcode = 'datetime_field_overflow';
    end if;
    if current_setting('synchronous_commit') in ('off', 'local', 'remote_write') then
        perform set_config('synchronous_commit', 'on', true);
    end if;

    perform from log for update;
    select e.position, e.recorded_at, e.append, coalesce((
        select r.position from event r where r.type between '$retagged' and '$retagged'
        order by r.type desc, r.position desc limit 1
    ), 0), exists (select from event k where k.id = any (e_id))
    into v_head, v_recorded_at, v_append, v_retag, v_has_known
    from event e order by e.position desc limit 1;
    if not found then
        v_head := 0; v_recorded_at := 0; v_append := 0; v_retag := 0; v_has_known := false;
    end if;
    verdict := 'head'; head := v_head; request := 0;
    v_recorded_at := greatest(coalesce(p_now, (extract(epoch from clock_timestamp()) * 1000000::numeric)::bigint), v_recorded_at);

    -- Event ids.
    if v_has_known then
        for v_row in
            select n.request, min(e.position) as position
            from unnest(e_request, e_id) n (request, id) join event e on e.id = n.id
            group by n.request
        loop
            v_known[v_row.request] := v_row.position;
        end loop;
    end if;

    -- Conditions, against the log as it was before this batch.
    if cardinality(i_request) > 0 then
        if v_retag > 0 then -- by itself: what follows takes time even if it is not asked
            if exists (
                select from unnest(i_part, i_after, i_tags) i (part, after, tags)
                where i.part > 0 and i.after < v_retag and not exists (
                    select from unnest(string_to_array(i.tags, E'\n')) t (tag)
                    where not exists (
                        select from posting p
                        where p.tag = '$changed:' || t.tag and p.type = '$retagged' and p.position > i.after
                    )
                )
            ) then
                verdict := 'judge';
                return next;
                return;
            end if;
        end if;

        -- Most conditions are about positions a moment ago, and few events came since then. Reading those tells which
        -- items can match at all, for much less than the look-ups of all items.
        foreach v_after in array i_after loop
            if v_after < v_head - least(4 * cardinality(i_after), 500) then
                v_has_old := true;
            else
                v_from := least(v_from, v_after);
            end if;
        end loop;
        if v_from < v_head then
            select array_agg(r.tag), array_agg(r.position) into n_tag, n_position
            from (
                select e.position, unnest(
                    array['', '$stream:' || e.stream, '$subject:' || e.subject] || string_to_array(e.tags, E'\n')
                ) as tag
                from event e where e.position > v_from
            ) r
            -- The test keeps the planner from turning the look-up in a hash table into a join.
            where (r.tag in (select split_part(i.tags, E'\n', 1) from unnest(i_tags) i (tags))) is true;
        end if;
        if v_has_old or n_tag is not null then
            select array_agg(i.item), array_agg(i.tags), array_agg(i.types), array_agg(i.excluded)
            into c_item, c_tags, c_types, c_excluded
            from unnest(i_after, i_tags, i_types, i_excluded) with ordinality i (after, tags, types, excluded, item)
            where i.after < v_head - least(4 * cardinality(i_after), 500) or exists (
                select from unnest(n_tag, n_position) n (tag, position)
                where n.tag = split_part(i.tags, E'\n', 1) and n.position > i.after
            );
        end if;
        if c_item is not null then
            select array_agg(f.request), array_agg(f.part), array_agg(f.position) into h_request, h_part, h_position
            from (
                select i_request[c_item[s.item]] as request, i_part[c_item[s.item]] as part, min(hit.position) as position
                from seeks_v1(c_tags, c_types, c_excluded) s
                cross join lateral (
                    (select p.position from posting p
                    where s.tag <> '' and p.tag = s.tag and p.type = s.type and p.position > i_after[c_item[s.item]]
                        and (s.others is null or not exists (
                            select from unnest(s.others) o (tag)
                            where not exists (
                                select from posting q
                                where q.tag = o.tag and q.type = p.type and q.position = p.position
                            )
                        ))
                    order by p.position
                    limit 1)
                    union all
                    (select e.position from event e
                    where s.tag = '' and (e.type, e.position) > (s.type, i_after[c_item[s.item]])
                        and (e.type, e.position) <= (s.type, v_head)
                    order by e.type, e.position
                    limit 1)
                ) hit
                group by 1, 2
            ) f;
        end if;
    end if;

    -- The verdict. If nothing speaks against any of them, the events simply get the next positions.
    v_is_plain := v_known is null and h_request is null and not i_has_rivals and i_newest_after <= v_head
        and cardinality(t_request) = 0;
    if not v_is_plain then
        v_next := v_head;
        for v_row in
            select n.request, n.events, n.first_event, c.part, c.after, c.rivals, c.source, c.tracked, h.position as hit
            from (
                select n.request, count(n.ordinal) as events, coalesce(min(n.ordinal), 1) as first_event
                from (
                    select e.request, e.ordinal from unnest(e_request) with ordinality e (request, ordinal)
                    union all
                    select t.request, null from unnest(t_request) t (request) -- it may have no events
                ) n
                group by n.request
            ) n
            left join (
                select i.request, i.part, max(i.after) as after, max(i.rivals) as rivals, null as source, null as tracked
                from unnest(i_request, i_part, i_after, i_rivals) i (request, part, after, rivals)
                group by i.request, i.part
                union all
                select t.request, 0, 0, null, t.source, t.position
                from unnest(t_request, t_source, t_position) t (request, source, position)
            ) c on c.request = n.request
            left join unnest(h_request, h_part, h_position) h (request, part, position)
                on h.request = n.request and h.part = c.part
            order by n.request, c.part, c.source nulls first -- unless_exists, tracking, the parts of the condition
        loop
            continue when v_row.request = v_refused;
            if v_row.request <> v_request then -- its first part: until something speaks against it, it is accepted
                v_request := v_row.request;
                v_append := v_append + least(v_row.events, 1);
                v_sources_before := v_sources;
                for v_event in v_row.first_event .. v_row.first_event + v_row.events - 1 loop
                    v_next := v_next + 1;
                    v_positions[v_event] := v_next;
                    v_appends[v_event] := v_append;
                end loop;
            end if;
            v_hit := v_row.hit;
            if v_hit is null and v_row.rivals is not null then -- what is in the log already comes before any rival
                v_hit := (
                    select min(v_positions[r.event])
                    from unnest(string_to_array(v_row.rivals, ',')::int[]) r (event)
                    where v_positions[r.event] > v_row.after
                );
            end if;
            v_tracked := coalesce(
                (v_sources ->> v_row.source)::bigint, (select k.position from tracking k where k.source = v_row.source)
            );
            if v_known[v_request] is null and v_hit is null and coalesce(v_row.after, 0) <= v_next - v_row.events
                and (v_tracked is null or v_tracked < v_row.tracked)
            then
                if v_row.source is not null then
                    v_sources := v_sources || jsonb_build_object(v_row.source, v_row.tracked);
                end if;
                continue;
            end if;
            v_append := v_append - least(v_row.events, 1);
            v_sources := v_sources_before;
            v_next := v_next - v_row.events;
            for v_event in v_row.first_event .. v_row.first_event + v_row.events - 1 loop
                v_positions[v_event] := null;
            end loop;
            v_refused := v_request;
            r_request := r_request || v_request;
            r_part := r_part || v_row.part;
            r_head := r_head || coalesce(v_tracked, v_next);
            r_position := r_position || coalesce(v_known[v_request], case when v_row.after <= v_next then v_hit end);
            r_verdict := r_verdict || case
                when v_known[v_request] is not null then 'known'
                when v_row.source is not null then 'tracked'
                when v_row.part = 0 then 'exists'
                when v_row.after > v_next then 'beyond'
                else 'conflict'
            end;
        end loop;
    end if;

    -- Write.
    if p_refused > 0 then
        update log set refused = refused + p_refused;
    end if;
    if v_is_plain and cardinality(e_id) = 1 then -- as most are, and quicker without rows
        insert into event (position, recorded_at, append, span, id, type, tags, stream, subject, metadata, condition, data)
        values (
            v_head + 1, v_recorded_at, v_append + 1, null,
            e_id[1], e_type[1], e_tags[1], e_stream[1], e_subject[1], e_metadata[1], e_condition[1], e_data[1]
        );
        insert into posting (tag, type, position)
        select unnest(
            array_remove(array['$stream:' || e_stream[1], '$subject:' || e_subject[1]], null) || string_to_array(e_tags[1], E'\n')
        ), e_type[1], v_head + 1;
    else
        insert into event (position, recorded_at, append, span, id, type, tags, stream, subject, metadata, condition, data)
        select case when v_is_plain then v_head + n.ordinal else n.position end, v_recorded_at,
            case when v_is_plain then v_append + n.request else n.append end,
            nullif(n.span, 1), n.id, n.type, n.tags, n.stream, n.subject, n.metadata, n.condition, n.data
        from unnest(
            v_positions, v_appends,
            e_request, e_span, e_id, e_type, e_tags, e_stream, e_subject, e_metadata, e_condition, e_data
        ) with ordinality n (
            position, append, request, span, id, type, tags, stream, subject, metadata, condition, data, ordinal
        )
        where v_is_plain or n.position is not null;

        insert into posting (tag, type, position)
        select
            unnest(case
                when n.stream is null and n.subject is null then string_to_array(n.tags, E'\n') -- as most are
                else array_remove(array['$stream:' || n.stream, '$subject:' || n.subject], null) || string_to_array(n.tags, E'\n')
            end),
            n.type, case when v_is_plain then v_head + n.ordinal else n.position end
        from unnest(v_positions, e_type, e_tags, e_stream, e_subject) with ordinality
            n (position, type, tags, stream, subject, ordinal)
        where v_is_plain or n.position is not null;
    end if;

    if v_sources <> '{}' then
        insert into tracking (source, position)
        select t.key, t.value::bigint from jsonb_each_text(v_sources) t
        on conflict (source) do update set position = excluded.position;
    end if;

    if '$retagged' = any (e_type) then
        perform retag_v2(v_head);
    end if;

    -- Answer.
    return next;
    if v_refused > 0 then
        return query
        select r.request, r.verdict, r.part, r.head,
            f.position, f.position + coalesce(f.span, 1) - 1,
            e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
        from unnest(r_request, r_verdict, r_part, r_head, r_position) r (request, verdict, part, head, position)
        left join event e on e.position = r.position
        left join event f on f.position = e.position + least(coalesce(e.span, 0), 0);
    end if;
end
$$;
