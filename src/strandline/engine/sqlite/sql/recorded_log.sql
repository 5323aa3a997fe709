-- Events in order with what an audit needs of them; the first of an append has the append's last position and its
-- condition.
select position, type, tags, stream, subject, recorded_at,
    case when append is not null then position + coalesce(span, 1) - 1 end, shape, arguments
from event
where position > ?1 and position <= ?2
order by position
limit ?3
