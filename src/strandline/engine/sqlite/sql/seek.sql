-- Positions for one seek (tag * 2^31 + type).
select position from posting
where tag = ?1 >> 31 and type = ?1 & 2147483647 and position > ?2 and position <= ?3
limit ?4
