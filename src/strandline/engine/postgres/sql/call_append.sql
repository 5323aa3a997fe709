-- One batch of appends, if the event at $25 has the id $26. No row, and nothing written, if it has not: this log went
-- back in time. PostgreSQL asks that, and says how long to wait for the lock of the log, before it calls the function:
-- as long as the store says, or as the session says if that is shorter.
select * from {schema}.append_v3(
    $1, $2,
    $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
    $13, $14, $15, $16, $17, $18, $19, $20, $21,
    $22, $23, $24
)
where (
    select set_config('lock_timeout', case
        when current_setting('lock_timeout')::interval between interval '1ms' and interval '{lock_timeout}'
        then current_setting('lock_timeout') else '{lock_timeout}'
    end, true)
) is not null
    and (
        $25 = 0
        or (select uuid_send(e.id) from {schema}.event e where e.position <= $25 order by e.position desc limit 1) = $26
    )
