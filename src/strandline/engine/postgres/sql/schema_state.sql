-- What is in a log's schema: may we look, is there anything, and does it look like a log?
select
    has_schema_privilege(n.oid, 'usage'),
    exists (select from pg_class c where c.relnamespace = n.oid)
        or exists (select from pg_proc p where p.pronamespace = n.oid),
    (select count(*) = 2 from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = n.oid and c.relname = 'log' and a.attname in ('version', 'uuid'))
from pg_namespace n
where n.nspname = %s
