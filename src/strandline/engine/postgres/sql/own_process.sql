-- The server process that serves this connection, so that it can be told from a later one with the same number.
select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()
