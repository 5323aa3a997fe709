-- The last retag.
select coalesce(max(position), 0) from {schema}.posting where tag = '' and type = '$retagged'
