-- The text of a number.
select text from name where id = ?1
