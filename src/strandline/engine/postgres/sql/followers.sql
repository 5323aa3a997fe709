-- All followers, or the one of a name.
select name, query, start, position, judged, epoch, owner, renewed_at, lease, is_paused, error
from {schema}.follower
where %(name)s::text is null or name = %(name)s
order by name
