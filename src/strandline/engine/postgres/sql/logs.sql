-- The logs of the database that the role may use: schemas of our name with a table that says which log it is.
select substr(n.nspname, length('strandline_') + 1) collate "C" as log
from pg_namespace n
where starts_with(n.nspname, 'strandline_') and has_schema_privilege(n.oid, 'usage') and (
    select count(*) = 2 from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = n.oid and c.relname = 'log' and a.attname in ('version', 'uuid')
)
order by log
