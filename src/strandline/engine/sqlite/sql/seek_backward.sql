-- Positions of one tag and one type, backward: a range of the index and nothing else.
select position from posting
where tag = ?1 and type = ?2 and position > ?3 and position <= ?4
order by position desc
limit ?5
