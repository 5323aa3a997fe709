-- A follower and its dead letters are gone.
with letters as (delete from {schema}.dead_letter where follower = %(name)s)
delete from {schema}.follower where name = %(name)s
