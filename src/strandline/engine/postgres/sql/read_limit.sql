-- How long a statement may take, in milliseconds: the shorter of a limit and that of the session.
select set_config(
  'statement_timeout',
  case when setting::bigint between 1 and %(milliseconds)s then setting else %(milliseconds)s::text end,
  %(is_local)s
)
from pg_settings
where name = 'statement_timeout'
