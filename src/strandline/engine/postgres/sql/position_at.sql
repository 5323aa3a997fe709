-- The last position recorded at or before a time: halves the log until it is found, for times never decrease.
with recursive halves (low, high) as (
    select 0::bigint, coalesce(max(position), 0) from {schema}.event
    union all
    select
        case when e.recorded_at <= $1 then e.position else h.low end,
        case when e.recorded_at <= $1 then h.high else e.position - 1 end
    from halves h join {schema}.event e on e.position = (h.low + h.high + 1) / 2
    where h.low < h.high
)
select low from halves where low = high
