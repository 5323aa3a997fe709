-- Ends a server process whose client is gone, and waits for its end.
select pg_terminate_backend(pid, 2000) from pg_stat_activity where pid = %s and backend_start = %s
