-- The appends of a range, in order.
select position, position + coalesce(span, 1) - 1, recorded_at, shape, arguments
from event
where position > ?1 and position <= ?2 and append is not null
order by position
limit ?3
