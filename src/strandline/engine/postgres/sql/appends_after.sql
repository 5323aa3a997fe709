-- Recorded appends in order.
select position, position + coalesce(span, 1) - 1, condition, recorded_at
from {schema}.event
where position > $1 and coalesce(span, 1) > 0
order by position
limit $2
