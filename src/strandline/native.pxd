"""What other native modules make of values that are known to be within the rules."""

cdef object new_object(object kind)
cdef tuple plain_tags(object values)
cdef object plain_event(str type, bytes data, tuple tags)
cdef object plain_query(tuple types, tuple tags)
cdef object plain_condition(object query, object after)
cdef object joined_condition(tuple parts)
cdef object plain_request(tuple events, object condition)
