-- A new tag or type gets the next number.
insert into name (text) values (?1) returning id
