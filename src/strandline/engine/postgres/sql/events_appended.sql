-- Events with their tags as appended, in order.
select e.position, e.type, e.data, coalesce(a.tags, e.tags), e.stream, e.subject, uuid_send(e.id), e.metadata,
    e.recorded_at
from {schema}.event e left join {schema}.appended_tags a on a.position = e.position
where e.position > $1 and e.position <= $2
order by e.position
