-- Keep the state of a projection.
select {schema}.save_snapshot_v1($1, $2, $3, $4, $5)
