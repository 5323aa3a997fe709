-- A page of events, after a row with the head. In the place of data that row has the id of the event at $8, or of the
-- last event before: a log that went back in time shows there.
select
    r.position, r.type,
    coalesce(r.data, (select uuid_send(e.id) from {schema}.event e where e.position <= $8 order by e.position desc limit 1)),
    r.tags, r.stream, r.subject, r.id, r.metadata, r.recorded_at
from {schema}.read_v1($1, $2, $3, $4, $5, $6, $7) r
