-- A retag conflicts with a condition if an event that it changed matches before or after it. So a retag is found under every tag
-- that such an event had then, its stream and subject included; until now it was under the tags that it gave or took.
lock table log in exclusive mode; -- first, as appends do, or they and this would wait for each other
create table tag_change (position bigint, tag text collate "C", retag bigint, is_added boolean);
insert into tag_change
select c.position, t.tag, n.position, t.is_added
from event n
cross join lateral jsonb_to_recordset(convert_from(n.data, 'UTF8')::jsonb -> 'changes')
    as c (position bigint, removed text[], added text[])
cross join lateral (select unnest(c.removed), false union all select unnest(c.added), true) t (tag, is_added)
where n.type = '$retagged';
create index on tag_change (position, tag, retag);
analyze tag_change;
insert into posting (tag, type, position)
select distinct '$changed:' || t.tag, '$retagged', c.retag
from (select distinct retag, position from tag_change) c
join event e on e.position = c.position
join appended_tags a on a.position = c.position
cross join lateral (
    select unnest(array_remove(array['$stream:' || e.stream, '$subject:' || e.subject], null))
    union
    select o.tag from unnest(string_to_array(a.tags, E'\n')) o (tag)
    where not exists (
        select from tag_change h where h.position = c.position and h.tag = o.tag and h.retag <= c.retag
    )
    union
    select l.tag
    from (
        select distinct on (h.tag) h.tag, h.retag, h.is_added
        from tag_change h where h.position = c.position and h.retag <= c.retag
        order by h.tag, h.retag desc
    ) l
    where l.is_added or l.retag = c.retag
) t (tag)
on conflict do nothing;
drop table tag_change;
drop function if exists append_v2;
drop function if exists retag_v1;
