-- The last position of a type.
select max(position) from posting where tag = 0 and type = ?1
