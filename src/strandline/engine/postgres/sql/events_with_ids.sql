-- Those of several events that are anywhere, with their tags as appended. The offsets make it one look-up for each id,
-- whatever the planner thinks of tables that it has no statistics of.
select e.position, e.type, e.data, coalesce(a.tags, e.tags), e.stream, e.subject, uuid_send(e.id), e.metadata,
    e.recorded_at
from unnest($1) wanted (id)
cross join lateral (select * from {schema}.event e where e.id = wanted.id offset 0) e
left join lateral (select a.tags from {schema}.appended_tags a where a.position = e.position offset 0) a on true
order by e.position
