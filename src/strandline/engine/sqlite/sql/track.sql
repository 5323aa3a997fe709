-- An append came with this position of a source.
insert into tracking (source, position) values (?1, ?2)
on conflict (source) do update set position = excluded.position
