-- Recorded appends backward.
select position, position + coalesce(span, 1) - 1, shape, arguments, recorded_at
from event
where position > ?1 and position <= ?2 and append is not null
order by position desc
limit ?3
