-- One event.
insert into event (position, type, data, tags, stream, subject, id, metadata, recorded_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
