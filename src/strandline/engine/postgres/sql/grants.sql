-- What an application needs, and nothing else: it reads, and it writes through one function.
grant usage on schema {schema} to {role};
grant select on all tables in schema {schema} to {role};
grant execute on function {schema}.append_v1 to {role};
