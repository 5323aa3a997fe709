-- The types of the events that carry a tag: one seek per type, however many events there are.
with recursive present (type) as (
  select min(type) from posting where tag = ?1
  union all
  select (select min(type) from posting where tag = ?1 and type > present.type) from present
  where present.type is not null
)
select type from present where type is not null
