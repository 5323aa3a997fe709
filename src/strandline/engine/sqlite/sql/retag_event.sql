-- The present tags of an event.
update event set tags = ?2 where position = ?1
