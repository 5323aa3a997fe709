-- How many events match.
select {schema}.count_v1($1, $2, $3)
