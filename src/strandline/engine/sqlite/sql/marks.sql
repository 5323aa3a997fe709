-- The head, its time, and how far the index goes; no row in an empty log.
select e.position, e.recorded_at, l.indexed_to from event e, log l order by e.position desc limit 1
