-- A tag that was taken from an event, as tag * 2^31 + type.
delete from posting where tag = ?1 >> 31 and type = ?1 & 2147483647 and position = ?2
