-- How many of these entries the index has.
select count(*)
from unnest(%s::text[], %s::text[], %s::bigint[]) n (tag, type, position)
join {schema}.posting p on p.tag = n.tag and p.type = n.type and p.position = n.position
