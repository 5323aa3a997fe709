-- The events at given positions (an array of numbers), in the order of the array.
select position, type, data, tags, stream, subject, id, metadata, recorded_at
from carray(?1) wanted cross join event on position = wanted.value
