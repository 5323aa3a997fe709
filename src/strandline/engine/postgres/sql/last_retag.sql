-- The last retag; the order is one that only the index of types has.
select coalesce((
    select position from {schema}.event where type between '$retagged' and '$retagged' order by type desc, position desc limit 1
), 0)
