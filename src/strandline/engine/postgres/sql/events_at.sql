-- The events at given positions.
select e.position, e.type, e.data, e.tags, e.stream, e.subject, uuid_send(e.id), e.metadata, e.recorded_at
from {schema}.event e
where e.position = any ($1)
order by e.position
