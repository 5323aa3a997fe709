-- How the file's index knows a type: how many events up to a position have it, the first and the last.
select count(*), min(position), max(position) from posting where tag = 0 and type = ?1 and position <= ?2
