-- Positions for all seeks of an array (tag * 2^31 + type), in no order: the fast way if they are few.
select p.position from carray(?1) seek
cross join posting p
  on p.tag = seek.value >> 31 and p.type = seek.value & 2147483647 and p.position > ?2 and p.position <= ?3
limit ?4
