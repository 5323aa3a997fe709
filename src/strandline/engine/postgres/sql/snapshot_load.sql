-- The state of a projection that was kept.
select projection, key, version, position, state from {schema}.snapshot where projection = $1 and key = $2
