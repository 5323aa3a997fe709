-- The last position.
select coalesce(max(position), 0) from {schema}.event
