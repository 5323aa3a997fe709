-- A page of events, after a row with the head.
select * from {schema}.read_v1(%s, %s, %s, %s, %s::text[], %s::text[], %s::text[])
