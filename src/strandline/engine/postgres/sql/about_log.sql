-- Which log this is.
select version, uuid from {schema}.log
