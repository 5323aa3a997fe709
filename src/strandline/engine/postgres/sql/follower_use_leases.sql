-- Holders of leases live, and have looked at everything up to a position. A row that is locked is being worked on, or
-- taken over: whoever does it has the say.
with used as (
    select f.name, u.position, u.judged
    from unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[]) u (name, epoch, position, judged)
    join {schema}.follower f on f.name = u.name and f.epoch = u.epoch and f.owner <> ''
    for update of f skip locked
)
update {schema}.follower f
set renewed_at = %s, position = greatest(f.position, u.position), judged = greatest(f.judged, u.judged)
from used u
where f.name = u.name
returning f.name
