-- A tag that was taken from an event.
delete from posting where tag = ?1 and type = ?2 and position = ?3
