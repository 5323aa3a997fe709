-- A dead letter is done with.
delete from dead_letter where follower = ?1 and position = ?2
