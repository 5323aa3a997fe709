-- How many entries a range of the index has, counted up to a limit: finds the rarest tag cheaply.
select count(*) from (
  select 1 from posting where tag = ?1 and type = ?2 and position > ?3 and position <= ?4 limit ?5
)
