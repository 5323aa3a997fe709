-- Which log this is, and its last position.
select l.uuid::text, coalesce((select max(e.position) from {schema}.event e), 0) from {schema}.log l
