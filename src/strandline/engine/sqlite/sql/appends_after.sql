-- Recorded appends in order.
select position, position + coalesce(span, 1) - 1, shape, arguments, recorded_at
from event
where position > ?1 and append is not null
order by position
limit ?2
