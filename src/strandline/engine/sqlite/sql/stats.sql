-- Figures for people; the tags are those that an event carries now.
select
  (select uuid from log),
  (select refused from log),
  (select count(*) from append),
  (select count(*) from name where text not like '$%' and id > 0
     and exists (select 1 from posting where tag = name.id)),
  (select page_count * page_size from pragma_page_count(), pragma_page_size())
