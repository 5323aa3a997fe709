-- Figures for people, in one snapshot; the tags are those that an event carries now.
with recursive tags (tag) as (
    (select tag from {schema}.posting order by tag limit 1)
    union all
    select (select p.tag from {schema}.posting p where p.tag > tags.tag order by p.tag limit 1)
    from tags where tags.tag is not null
)
select
    l.uuid,
    l.version,
    coalesce((select position from {schema}.event order by position desc limit 1), 0),
    coalesce((select append from {schema}.event order by position desc limit 1), 0),
    l.refused,
    (select count(*) from {schema}.types_v1('')),
    (select count(*) from tags where tag not like '$%%'),
    (select sum(pg_total_relation_size(c.oid))::bigint from pg_class c
     where c.relnamespace = %s::regnamespace and c.relkind = 'r'),
    (select n.value from {schema}.note n where n.key = 'last_check'),
    (select n.value from {schema}.note n where n.key = 'last_backup')
from {schema}.log l
