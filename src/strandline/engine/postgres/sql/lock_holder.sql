-- The process that holds the lock of the log, for longest first. Those that wait for it have a lock that is not granted.
select a.pid, coalesce(a.application_name, ''), coalesce(host(a.client_addr), '')
from pg_locks l
join pg_stat_activity a using (pid)
where l.relation = '{schema}.log'::regclass
    and l.mode = 'RowShareLock'
    and l.granted
    and a.pid <> pg_backend_pid()
    and not exists (select from pg_locks w where w.pid = l.pid and not w.granted)
order by a.xact_start nulls last
limit 1
