-- One entry of the index, under tag * 2^31 + type; one that another process has put there already is no harm.
insert or ignore into posting (tag, type, position) values (?1 >> 31, ?1 & 2147483647, ?2)
