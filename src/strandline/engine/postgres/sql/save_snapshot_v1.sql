-- Keeps a state, unless a newer one of the same version is kept.
create or replace function save_snapshot_v1(p_projection text, p_key text, p_version text, p_position bigint, p_state bytea)
returns void
language sql security definer
set search_path from current
as $$
    insert into snapshot (projection, key, version, position, state)
    values (p_projection, p_key, p_version, p_position, p_state)
    on conflict (projection, key) do update
    set version = excluded.version, position = excluded.position, state = excluded.state
    where excluded.version <> snapshot.version or excluded.position > snapshot.position
$$;
revoke all on function save_snapshot_v1 from public;
