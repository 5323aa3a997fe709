-- The number of a tag or type.
select id from name where text = ?1
