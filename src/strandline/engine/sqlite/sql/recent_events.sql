-- What the index would say of a range of events.
select position, type, tags, stream, subject from event where position > ?1 and position <= ?2 order by position
