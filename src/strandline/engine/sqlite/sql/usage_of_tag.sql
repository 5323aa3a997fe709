-- How the file's index knows a tag: how many events up to a position carry it, the first and the last.
select count(*), min(position), max(position) from posting where tag = ?1 and position <= ?2
