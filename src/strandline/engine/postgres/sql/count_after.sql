-- How many events after position $4 match one of the items, each counted once. The offsets make it one look-up for each
-- range, whatever the planner thinks of tables that it has no statistics of.
select count(distinct hit.position)
from {schema}.seeks_v1($1, $2, $3) s
cross join lateral (
    (select p.position from {schema}.posting p
    where s.tag <> '' and p.tag = s.tag and p.type = s.type and p.position > $4 and (s.others is null or not exists (
        select from unnest(s.others) o (tag)
        where not exists (
            select from {schema}.posting q where q.tag = o.tag and q.type = p.type and q.position = p.position
        )
    ))
    offset 0)
    union all
    (select e.position from {schema}.event e where s.tag = '' and e.type = s.type and e.position > $4 offset 0)
) hit
