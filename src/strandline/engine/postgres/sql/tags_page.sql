-- At most $4 tags from $1 on, before $2, that begin with $3, with how many events carry each, the first and the last of
-- them: one look-up finds the next tag, however many events there are.
with recursive present (tag, number) as (
    (select p.tag, 1::bigint from {schema}.posting p where p.tag >= $1 order by p.tag limit 1)
    union all
    select (select p.tag from {schema}.posting p where p.tag > present.tag order by p.tag limit 1), present.number + 1
    from present
    where present.tag is not null and present.tag < $2 and starts_with(present.tag, $3) and present.number < $4
)
select present.tag, u.count, u.first, u.last
from present
cross join lateral (
    select count(*) as count, min(p.position) as first, max(p.position) as last
    from {schema}.posting p where p.tag = present.tag
) u
where present.tag is not null and present.tag < $2 and starts_with(present.tag, $3)
order by present.number
