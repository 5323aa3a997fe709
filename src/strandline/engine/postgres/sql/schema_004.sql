-- What no tag leads to is found by its type, in an index of the events; until now every event had an entry for that.
lock table log in exclusive mode; -- first, as appends do, or they and this would wait for each other
create index event_by_type on event (type, position);
delete from posting where tag = '';
-- An append that waited for the lock goes on with the function as it was. It would look for such entries in vain, but it writes
-- one for each of its events, and so it fails.
alter table posting add constraint posting_has_a_tag check (tag <> '');
drop function if exists append_v1;
