-- Recorded appends in order, with the time of their first event.
select a.first, coalesce(a.last, a.first), a.shape, a.arguments, e.recorded_at
from append a join event e on e.position = a.first
where a.first > ?1
order by a.first
limit ?2
