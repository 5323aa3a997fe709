-- Entries of the index that no event explains.
select p.tag, p.type, p.position
from {schema}.posting p left join {schema}.event e on e.position = p.position and e.type = p.type
where e.position is null or not (
    p.tag = any (string_to_array(e.tags, E'\n'))
    or coalesce(p.tag = '$stream:' || e.stream, false)
    or coalesce(p.tag = '$subject:' || e.subject, false)
    or p.type = '$retagged' and exists (
        select from jsonb_to_recordset(convert_from(e.data, 'UTF8')::jsonb -> 'changes')
            c (position bigint, removed text[], added text[])
        left join {schema}.event r on r.position = c.position
        left join {schema}.appended_tags a on a.position = c.position
        where p.tag in (
            select '$changed:' || t.tag
            from unnest(
                array['$stream:' || r.stream, '$subject:' || r.subject] || string_to_array(r.tags, E'\n')
                || string_to_array(a.tags, E'\n') || c.removed || c.added
            ) t (tag)
        )
    )
)
order by p.position, p.tag
limit %s
