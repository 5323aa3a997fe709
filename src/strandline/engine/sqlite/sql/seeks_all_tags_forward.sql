-- Like seeks_forward, for events that also carry every tag of the array ?5: one look-up each.
select (
  select group_concat(position) from (
    select p.position from posting p
    where p.tag = seek.value >> 31 and p.type = seek.value & 2147483647 and p.position > ?2 and p.position <= ?3
      and not exists (
        select 1 from carray(?5) other
        where not exists (
          select 1 from posting q where q.tag = other.value and q.type = p.type and q.position = p.position
        )
      )
    order by p.position
    limit ?4
  )
)
from carray(?1) seek
