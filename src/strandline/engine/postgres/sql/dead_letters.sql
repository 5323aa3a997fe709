-- The dead letters of a follower.
select follower, position, error, traceback, attempts, time
from {schema}.dead_letter
where follower = %s
order by position
