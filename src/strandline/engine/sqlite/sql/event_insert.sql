-- One event.
insert into event (
  position, type, data, tags, stream, subject, id, metadata, recorded_at, append, span, shape, arguments
)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
