-- Keep a state, unless a newer one of the same version is kept.
insert into snapshot (projection, key, version, position, state) values (?1, ?2, ?3, ?4, ?5)
on conflict (projection, key) do update
set version = excluded.version, position = excluded.position, state = excluded.state
where excluded.version <> snapshot.version or excluded.position > snapshot.position
