-- One event.
insert into event (
  position, type, data, tags, stream, subject, id, metadata, recorded_at, append, span, shape, arguments
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
