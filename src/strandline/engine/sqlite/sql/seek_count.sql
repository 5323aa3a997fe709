-- How many entries a seek (tag * 2^31 + type) has in a range, counted up to a limit: finds the rarest tag cheaply.
select count(*) from (
  select 1 from posting
  where tag = ?1 >> 31 and type = ?1 & 2147483647 and position > ?2 and position <= ?3
  limit ?4
)
