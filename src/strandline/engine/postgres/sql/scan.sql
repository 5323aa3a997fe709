-- A range of the log. COPY takes no parameters, so the values are put in as literals.
select {columns}
from {schema}.event e
where e.position > {after} and e.position <= {until}
    and (
        {every}
        or (e.type <> all ({excluded}::text[]) and e.type not like '$%')
        or e.type = any ({listed}::text[])
    )
order by e.position
