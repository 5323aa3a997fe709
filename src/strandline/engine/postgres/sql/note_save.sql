-- Note when something was done last, as microseconds since 1970.
insert into {schema}.note (key, value) values (%s, (extract(epoch from clock_timestamp()) * 1000000::numeric)::bigint)
on conflict (key) do update set value = excluded.value
