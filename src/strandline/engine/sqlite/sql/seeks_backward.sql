-- Positions backward for each seek of an array (tag * 2^31 + type): a row per seek, its positions joined by commas.
select (
  select group_concat(position) from (
    select position from posting
    where tag = seek.value >> 31 and type = seek.value & 2147483647 and position > ?2 and position <= ?3
    order by position desc
    limit ?4
  )
)
from carray(?1) seek
