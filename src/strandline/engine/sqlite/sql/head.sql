-- The head and its time; no row in an empty log.
select position, recorded_at from event order by position desc limit 1
