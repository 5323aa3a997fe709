-- At most $3 types from $1 on that begin with $2, with how many events have each, the first and the last of them.
select t.type, u.count, u.first, u.last
from (
    select n.type collate "C" as type from {schema}.types_v1('') n
    where n.type collate "C" >= $1 and starts_with(n.type, $2)
    order by n.type collate "C"
    limit $3
) t
cross join lateral (
    select count(*) as count, min(e.position) as first, max(e.position) as last
    from {schema}.event e where e.type = t.type
) u
order by t.type
