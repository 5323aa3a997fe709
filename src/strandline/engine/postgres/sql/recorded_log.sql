-- Events in order with what an audit needs of them; the first of an append has the append's last position and its
-- condition.
select position, type, tags, stream, subject, recorded_at,
    case when coalesce(span, 1) > 0 then position + coalesce(span, 1) - 1 end, condition
from {schema}.event
where position > $1 and position <= $2
order by position
limit $3
