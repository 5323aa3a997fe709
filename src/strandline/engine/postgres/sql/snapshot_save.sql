-- Keep the state of a projection, if the event at $6 has the id $7; no row if it has not.
select {schema}.save_snapshot_v1($1, $2, $3, $4, $5)
where $6 = 0
    or (select uuid_send(e.id) from {schema}.event e where e.position <= $6 order by e.position desc limit 1) = $7
