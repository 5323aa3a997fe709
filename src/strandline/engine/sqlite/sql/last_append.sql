-- The number of the append that wrote a position.
select f.append
from event e join event f on f.position = e.position + min(coalesce(e.span, 0), 0)
where e.position = ?1
