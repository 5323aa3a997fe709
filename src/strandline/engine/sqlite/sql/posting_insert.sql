-- One entry of the index.
insert into posting (tag, type, position) values (?1, ?2, ?3)
