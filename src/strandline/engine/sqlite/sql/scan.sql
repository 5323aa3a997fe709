-- A range of the log: every type (?3), or those of the list ?4, or all that are neither of the list ?5 nor the store's.
select {columns}
from event
where position > ?1 and position <= ?2
    and (
        ?3
        or (type not in (select value from json_each(?5)) and ?5 is not null and type not like '$%')
        or type in (select value from json_each(?4))
    )
order by position
