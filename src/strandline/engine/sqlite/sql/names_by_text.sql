-- The numbers of many tags and types.
select text, id from carray(?1) wanted cross join name on text = cast(wanted.value as text)
