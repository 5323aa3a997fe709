-- What a doctor asks a server.
select
    current_setting('server_version_num')::int as version,
    current_setting('server_encoding') as encoding,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    pg_is_in_recovery() as is_replica,
    current_setting('transaction_read_only') = 'on' as is_read_only,
    current_user::text as role,
    has_database_privilege(current_database(), 'create') as may_create
