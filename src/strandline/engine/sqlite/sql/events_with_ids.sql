-- Those events of several ids (an array of blobs) that are anywhere, with their tags as appended, in order.
select e.position, e.type, e.data, coalesce(a.tags, e.tags), e.stream, e.subject, e.id, e.metadata, e.recorded_at
from carray(?1) wanted cross join event e on e.id = wanted.value left join appended_tags a on a.position = e.position
order by e.position
