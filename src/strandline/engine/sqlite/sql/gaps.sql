-- Events that do not follow the one before them (check): position, the position before it.
select position, previous
from (select position, lag(position, 1, 0) over (order by position) as previous from event)
where position <> previous + 1
order by position
limit ?1
