-- How many dead letters a follower has.
select count(*) from {schema}.dead_letter where follower = %s
