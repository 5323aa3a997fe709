-- The append that wrote a position.
select first, coalesce(last, first) from append where first <= ?1 order by first desc limit 1
