-- Where an event id is, if it is anywhere.
select position from event where id = ?1
