-- A follower and its dead letters are gone.
delete from dead_letter where follower = ?1;
delete from follower where name = ?1
