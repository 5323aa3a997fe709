-- One batch of appends.
select * from {schema}.append_v1(
    %s, %s,
    %s::int[], %s::int[], %s::bytea[], %s::text[], %s::text[], %s::text[], %s::text[],
    %s::bytea[], %s::text[], %s::bytea[],
    %s::int[], %s::int[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[]
)
