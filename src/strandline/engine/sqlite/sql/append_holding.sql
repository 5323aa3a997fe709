-- The append that wrote a position: its first and last.
select f.position, f.position + coalesce(f.span, 1) - 1
from event e join event f on f.position = e.position + min(coalesce(e.span, 0), 0)
where e.position = ?1
