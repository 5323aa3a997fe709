-- Those of several event ids (an array of blobs) that are anywhere.
select id from carray(?1) wanted cross join event on id = wanted.value
