-- What the present role may do with a log, if there is one.
select
    has_schema_privilege(n.oid, 'usage') and (
        select bool_and(has_table_privilege(c.oid, 'select')) from pg_class c
        where c.relnamespace = n.oid and c.relkind = 'r'
    ) is true as may_read,
    has_schema_privilege(n.oid, 'usage') and (
        select bool_or(has_function_privilege(p.oid, 'execute')) from pg_proc p
        where p.pronamespace = n.oid and p.proname = 'append_v3'
    ) is true as may_append,
    pg_has_role(n.nspowner, 'usage') or (
        select bool_or(has_table_privilege(c.oid, 'insert, update, delete, truncate')) from pg_class c
        where c.relnamespace = n.oid and c.relkind = 'r' and c.relname not in ('follower', 'dead_letter')
    ) is true as may_change
from pg_namespace n
where n.nspname = %s
