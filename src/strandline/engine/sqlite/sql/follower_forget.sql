-- A follower is gone.
delete from follower where name = ?1
