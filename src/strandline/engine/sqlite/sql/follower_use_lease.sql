-- The holder of a lease lives, and has looked at everything up to a position.
update follower
set renewed_at = ?5, position = max(position, ?3), judged = max(judged, ?4)
where name = ?1 and epoch = ?2 and owner <> ''
returning name
