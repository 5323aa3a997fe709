-- What each event says about its append.
select position, append, span from event where position > ?1 order by position limit ?2
