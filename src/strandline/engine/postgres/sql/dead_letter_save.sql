-- A dead letter, instead of one for the same event.
insert into {schema}.dead_letter (follower, position, error, traceback, attempts, time)
values (%s, %s, %s, %s, %s, %s)
on conflict (follower, position) do update
set error = excluded.error, traceback = excluded.traceback, attempts = excluded.attempts, time = excluded.time
