-- How many of the given index entries (a JSON list of [tag, type, position]) are there.
select count(*) from json_each(?1) wanted
join posting p
  on p.tag = wanted.value ->> 0 and p.type = wanted.value ->> 1 and p.position = wanted.value ->> 2
