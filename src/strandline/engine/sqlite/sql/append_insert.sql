-- One recorded append.
insert into append (first, last, shape, arguments) values (?1, ?2, ?3, ?4)
