-- The text of a shape.
select text from shape where id = ?1
