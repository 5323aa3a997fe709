-- One follower.
select name, query, start, position, judged, epoch, owner, renewed_at, lease, is_paused, error
from follower
where name = ?1
