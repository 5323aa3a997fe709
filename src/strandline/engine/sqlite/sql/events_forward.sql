-- A range of the log; every event is in it, so no index is needed.
select position, type, data, tags, stream, subject, id, metadata, recorded_at
from event
where position > ?1 and position <= ?2
order by position
limit ?3
