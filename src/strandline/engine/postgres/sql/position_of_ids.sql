-- Where the first of several event ids is, if any is anywhere.
select min(position) from {schema}.event where id = any ($1)
