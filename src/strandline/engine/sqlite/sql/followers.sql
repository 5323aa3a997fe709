-- All followers, or the one of a name.
select name, query, start, position, judged, epoch, owner, renewed_at, lease, is_paused, error
from follower
where ?1 is null or name = ?1
order by name
