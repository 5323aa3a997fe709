-- One dead letter.
select follower, position, error, traceback, attempts, time from dead_letter where follower = ?1 and position = ?2
