-- One follower, for this transaction alone.
select name, query, start, position, judged, epoch, owner, renewed_at, lease, is_paused, error
from {schema}.follower
where name = %s
for update
