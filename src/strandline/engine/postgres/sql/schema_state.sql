-- What is in a log's schema: may we look, is there anything, does it look like a log, and is it ours alone to fill?
select
    has_schema_privilege(n.oid, 'usage'),
    exists (select from pg_class c where c.relnamespace = n.oid)
        or exists (select from pg_proc p where p.pronamespace = n.oid),
    (select count(*) = 2 from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = n.oid and c.relname = 'log' and a.attname in ('version', 'uuid')),
    pg_get_userbyid(n.nspowner) = current_user and not exists (
        select from aclexplode(n.nspacl) g where g.privilege_type = 'CREATE' and g.grantee <> n.nspowner
    )
from pg_namespace n
where n.nspname = %s
