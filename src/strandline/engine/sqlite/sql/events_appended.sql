-- Events with their tags as appended, in order.
select e.position, e.type, e.data, coalesce(a.tags, e.tags), e.stream, e.subject, e.id, e.metadata, e.recorded_at
from event e left join appended_tags a on a.position = e.position
where e.position > ?1 and e.position <= ?2
order by e.position
