-- What is kept of a follower changes.
update follower
set query = ?2, start = ?3, position = ?4, judged = ?5, epoch = ?6, owner = ?7, renewed_at = ?8, lease = ?9,
    is_paused = ?10, error = ?11
where name = ?1
