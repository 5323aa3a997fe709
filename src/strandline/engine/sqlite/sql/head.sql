-- The last position; no row in an empty log.
select position from event order by position desc limit 1
