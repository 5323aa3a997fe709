-- The first position under any [tag, type] of a JSON list: one look-up each, however many events there are.
select min((
  select position from posting
  where tag = seek.value ->> 0 and type = seek.value ->> 1 and position > ?2 and position <= ?3
  order by position
  limit 1
))
from json_each(?1) seek
