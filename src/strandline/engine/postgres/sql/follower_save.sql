-- What is kept of a follower changes.
update {schema}.follower
set query = %(query)s, start = %(start)s, position = %(position)s, judged = %(judged)s, epoch = %(epoch)s,
    owner = %(owner)s, renewed_at = %(renewed_at)s, lease = %(lease)s, is_paused = %(is_paused)s, error = %(error)s
where name = %(name)s
