-- A dead letter is done with.
delete from {schema}.dead_letter where follower = %s and position = %s
