-- The first position under any seek of an array (tag * 2^31 + type): one look-up each, however many events there are.
select min((
  select position from posting
  where tag = seek.value >> 31 and type = seek.value & 2147483647 and position > ?2 and position <= ?3
  order by position
  limit 1
))
from carray(?1) seek
