-- How many dead letters a follower has.
select count(*) from dead_letter where follower = ?1
