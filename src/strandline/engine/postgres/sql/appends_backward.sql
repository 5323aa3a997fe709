-- Recorded appends backward.
select position, position + coalesce(span, 1) - 1, condition, recorded_at
from {schema}.event
where position > $1 and position <= $2 and coalesce(span, 1) > 0
order by position desc
limit $3
