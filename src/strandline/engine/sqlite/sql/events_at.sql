-- The events at given positions (an array of numbers), in order.
select position, type, data, tags, stream, subject, id, metadata, recorded_at
from event
where position in (select value from carray(?1))
order by position
