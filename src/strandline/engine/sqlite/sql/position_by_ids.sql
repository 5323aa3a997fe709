-- Where the first of several event ids (an array of blobs) is, if any is anywhere.
select position from event where id in (select value from carray(?1)) order by position limit 1
