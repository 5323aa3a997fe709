-- One entry of the index; one that another process has put there already is no harm.
insert or ignore into posting (tag, type, position) values (?, ?, ?)
