-- The append that wrote a position: its first and last.
select f.position, f.position + coalesce(f.span, 1) - 1
from {schema}.event e join {schema}.event f on f.position = e.position + least(coalesce(e.span, 0), 0)
where e.position = $1
