-- Positions of events of any type but those of the list ?3, backward.
select position from event
where position > ?1 and position <= ?2 and type not in (select value from json_each(?3))
order by position desc
limit ?4
