-- A dead letter, instead of one for the same event.
insert into dead_letter (follower, position, error, traceback, attempts, time) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (follower, position) do update
set error = excluded.error, traceback = excluded.traceback, attempts = excluded.attempts, time = excluded.time
