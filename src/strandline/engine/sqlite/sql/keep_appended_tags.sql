-- The tags as appended are kept the first time an event is retagged.
insert into appended_tags (position, tags) select position, tags from event where position = ?1
on conflict do nothing
