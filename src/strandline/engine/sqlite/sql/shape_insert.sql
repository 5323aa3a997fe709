-- A new shape.
insert into shape (text) values (?1) returning id
