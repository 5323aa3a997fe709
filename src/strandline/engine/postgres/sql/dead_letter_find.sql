-- One dead letter, for this transaction alone.
select follower, position, error, traceback, attempts, time
from {schema}.dead_letter
where follower = %s and position = %s
for update
