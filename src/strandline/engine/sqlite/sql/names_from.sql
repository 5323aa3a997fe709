-- Names in their order, from ?1 on, and before ?2.
select id, text from name where text >= ?1 and text < ?2 order by text limit ?3
