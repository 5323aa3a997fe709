-- The number of a shape of conditions.
select id from shape where text = ?1
