-- Which log this is.
select uuid from log
