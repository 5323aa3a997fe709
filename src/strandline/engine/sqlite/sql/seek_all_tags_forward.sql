-- Like seek_forward, for events that also carry every other tag of the list ?6: one look-up each.
select p.position from posting p
where p.tag = ?1 and p.type = ?2 and p.position > ?3 and p.position <= ?4
  and not exists (
    select 1 from json_each(?6) other
    where not exists (
      select 1 from posting q where q.tag = other.value and q.type = p.type and q.position = p.position
    )
  )
order by p.position
limit ?5
