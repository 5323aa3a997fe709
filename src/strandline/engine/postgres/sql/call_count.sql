-- How many events match.
select {schema}.count_v1(%s::text[], %s::text[], %s::text[])
