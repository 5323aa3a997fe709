-- Positions backward for each [tag, type] of a JSON list: a row per seek, its positions joined by commas.
select (
  select group_concat(position) from (
    select position from posting
    where tag = seek.value ->> 0 and type = seek.value ->> 1 and position > ?2 and position <= ?3
    order by position desc
    limit ?4
  )
)
from json_each(?1) seek
