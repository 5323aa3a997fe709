-- The last position, its id, and the id of the event at $1, or of the last event before. No row if the log is empty.
select
    h.position, uuid_send(h.id),
    (select uuid_send(e.id) from {schema}.event e where e.position <= $1 order by e.position desc limit 1)
from {schema}.event h
order by h.position desc limit 1
