-- A new follower, unless there is one of that name.
insert into {schema}.follower (name, query, start, position, judged, epoch, owner, renewed_at, lease, is_paused, error)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict do nothing
