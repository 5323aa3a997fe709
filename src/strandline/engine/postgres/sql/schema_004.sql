-- What no tag leads to is found by its type, in an index of the events themselves; until now every event had an entry for that.
create index event_by_type on event (type, position);
delete from posting where tag = '';
