-- The last retag.
select coalesce(max(position), 0) from {schema}.event where type = '$retagged'
