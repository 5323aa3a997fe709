-- The appends of a range, in order.
select position, position + coalesce(span, 1) - 1, recorded_at, condition
from {schema}.event
where position > $1 and position <= $2 and coalesce(span, 1) > 0
order by position
limit $3
