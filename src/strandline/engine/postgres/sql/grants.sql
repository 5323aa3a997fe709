-- What an application needs, and nothing else, whatever it had before: it reads, it writes events through one function,
-- and it keeps the books of its followers.
-- An owner must keep its rights, because the function writes with them.
do 'begin
    if exists (select from pg_namespace where nspname = ''{name}'' and nspowner = to_regrole({role_text})) then
        raise exception ''this role owns the log, and may use it without a grant'';
    end if;
end';
revoke all on schema {schema} from {role};
revoke all on all tables in schema {schema} from {role};
revoke all on all functions in schema {schema} from {role};
grant usage on schema {schema} to {role};
grant select on all tables in schema {schema} to {role};
grant execute on function {schema}.append_v3, {schema}.read_v1, {schema}.count_v1, {schema}.seeks_v1, {schema}.types_v1,
    {schema}.save_snapshot_v1
    to {role};
grant insert, update, delete on {schema}.follower, {schema}.dead_letter to {role};
