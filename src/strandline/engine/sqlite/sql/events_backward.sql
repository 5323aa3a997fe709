-- A range of the log from its end.
select position, type, data, tags, stream, subject, id, metadata, recorded_at
from event
where position > ?1 and position <= ?2
order by position desc
limit ?3
