-- Ids that several events have: where they are again, and the id.
select max(position), id from {schema}.event group by id having count(*) > 1 order by 1 limit %s
