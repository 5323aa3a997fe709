-- A new follower, unless there is one of that name.
insert into follower (name, query, start, position, judged, epoch, owner, renewed_at, lease, is_paused, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
on conflict do nothing
