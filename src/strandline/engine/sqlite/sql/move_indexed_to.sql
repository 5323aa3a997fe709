-- How far the index goes now.
update log set indexed_to = ?1
