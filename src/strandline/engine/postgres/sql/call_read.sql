-- A page of events, after a row with the head.
select * from {schema}.read_v1($1, $2, $3, $4, $5, $6, $7)
