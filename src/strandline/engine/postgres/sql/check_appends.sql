-- What each event says about its append.
select position, append, span from {schema}.event where position > %s order by position limit %s
