-- Figures for people; the tags are those that an event carries now, found in the index or in the list ?1.
select
  (select uuid from log),
  (select refused from log),
  (select count(*) from name where text not like '$%' and id > 0
     and (exists (select 1 from posting where tag = name.id) or id in (select value from json_each(?1)))),
  (select page_count * page_size from pragma_page_count(), pragma_page_size()),
  (select value from note where key = 'last_check'),
  (select value from note where key = 'last_backup')
