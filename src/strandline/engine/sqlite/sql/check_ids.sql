-- Ids that several events have: where they are again, and the id. By the table: an index that is damaged may not show it.
select max(position), id from event not indexed group by id having count(*) > 1 order by 1 limit ?
