-- The id of the event at $1, null if there is none; the head; and whether this server is a replica, which may be behind.
select
    (select uuid_send(e.id) from {schema}.event e where e.position = $1),
    coalesce((select e.position from {schema}.event e order by e.position desc limit 1), 0),
    pg_is_in_recovery()
