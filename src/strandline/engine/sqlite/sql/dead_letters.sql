-- The dead letters of a follower.
select follower, position, error, traceback, attempts, time from dead_letter where follower = ?1 order by position
