-- Every append with its number.
select position, position + coalesce(span, 1) - 1, append from event where append is not null order by position
