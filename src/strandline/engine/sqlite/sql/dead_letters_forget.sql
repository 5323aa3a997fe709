-- All dead letters of a follower are gone.
delete from dead_letter where follower = ?1
