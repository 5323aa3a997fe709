-- Refused appends since the last count.
update log set refused = refused + ?1
