# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Events and queries as they usually are, filled in native code.

The rules are in `names.py`, `event.py`, `query.py` and `append.py`. What is plainly within them is accepted here;
whatever is not is left to them, and nothing is refused here.
"""

from os import urandom

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.bool cimport PyBool_Check
from cpython.dict cimport PyDict_CheckExact, PyDict_GetItem, PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact
from cpython.unicode cimport PyUnicode_CheckExact
from libc.math cimport isfinite
from libc.string cimport memcpy

from .slots cimport Slot, find_slot, get_slot, put_slot

cdef extern from *:
    """
    #define new_of(kind, values) PyBaseObject_Type.tp_new((PyTypeObject *) (kind), values, NULL)
    """
    object new_of(object kind, tuple no_values)

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object)
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    const unsigned char *PyUnicode_1BYTE_DATA(object)

cdef extern from "<time.h>":
    struct timespec:
        long long tv_sec
        long tv_nsec
    int TIME_UTC
    int timespec_get(timespec *, int)

cdef enum:
    MAX_NAME = 256
    MAX_TAGS = 64
    MAX_TYPE_LISTS = 1024
    FEW_ITEMS = 8
    MAX_EVENTS = 10_000
    RANDOMS = 128
    MAX_DEPTH = 100

cdef tuple NO_NAMES = ()
cdef dict type_lists = {}  # as they were given -> as a query has them

cdef Slot EVENT_TYPE, EVENT_DATA, EVENT_TAGS, EVENT_STREAM, EVENT_SUBJECT, EVENT_ID, EVENT_METADATA, EVENT_KEY
cdef Slot ITEM_TYPES, ITEM_TAGS, ITEM_EXCLUDED, ITEM_STREAM, ITEM_SUBJECT, ITEM_WHERE, ITEM_KEY, ITEM_IDENTITY
cdef Slot QUERY_ITEMS, QUERY_HAS_WHERE
cdef object EVENT = None, ITEM = None, QUERY = None, CONDITION = None, REQUEST = None  # their classes
cdef Slot CONDITION_QUERY, CONDITION_AFTER, CONDITION_JOINED
cdef Slot REQUEST_EVENTS, REQUEST_CONDITION, REQUEST_STREAM, REQUEST_UNLESS_EXISTS, REQUEST_TRACKING


def know_events(event):
    """Learn where the classes of events keep what they have."""
    global EVENT
    EVENT = event
    find_slot(&EVENT_TYPE, event, "type")
    find_slot(&EVENT_DATA, event, "data")
    find_slot(&EVENT_TAGS, event, "tags")
    find_slot(&EVENT_STREAM, event, "stream")
    find_slot(&EVENT_SUBJECT, event, "subject")
    find_slot(&EVENT_ID, event, "raw_id")
    find_slot(&EVENT_METADATA, event, "metadata")
    find_slot(&EVENT_KEY, event, "key")


def know_queries(item, query):
    """Learn where the classes of queries keep what they have."""
    global ITEM, QUERY
    ITEM, QUERY = item, query
    find_slot(&ITEM_TYPES, item, "types")
    find_slot(&ITEM_TAGS, item, "tags")
    find_slot(&ITEM_EXCLUDED, item, "exclude_types")
    find_slot(&ITEM_STREAM, item, "stream")
    find_slot(&ITEM_SUBJECT, item, "subject")
    find_slot(&ITEM_WHERE, item, "where")
    find_slot(&ITEM_KEY, item, "key")
    find_slot(&ITEM_IDENTITY, item, "_identity")
    find_slot(&QUERY_ITEMS, query, "items")
    find_slot(&QUERY_HAS_WHERE, query, "has_where")


def know_appends(condition, request):
    """Learn where the classes of appends keep what they have."""
    global CONDITION, REQUEST
    CONDITION, REQUEST = condition, request
    find_slot(&CONDITION_QUERY, condition, "fail_if_events_match")
    find_slot(&CONDITION_AFTER, condition, "after")
    find_slot(&CONDITION_JOINED, condition, "_joined")
    find_slot(&REQUEST_EVENTS, request, "events")
    find_slot(&REQUEST_CONDITION, request, "condition")
    find_slot(&REQUEST_STREAM, request, "stream")
    find_slot(&REQUEST_UNLESS_EXISTS, request, "unless_exists")
    find_slot(&REQUEST_TRACKING, request, "tracking")


cdef unsigned long long[RANDOMS] randoms  # asked for in advance
cdef int randoms_left = 0


def forget_randoms():
    """Ask for others: a forked process must not use the same."""
    global randoms_left
    randoms_left = 0


def new_id():
    """See `uuid7` in `event.py`."""
    global randoms_left
    cdef timespec now
    cdef unsigned long long high, low
    cdef unsigned char[16] id
    cdef int index
    if randoms_left == 0:
        many = <bytes>urandom(sizeof(randoms))
        memcpy(randoms, PyBytes_AS_STRING(many), sizeof(randoms))
        randoms_left = RANDOMS
    timespec_get(&now, TIME_UTC)
    randoms_left -= 1
    high = (<unsigned long long>now.tv_sec * 1000 + now.tv_nsec // 1_000_000) << 16
    high |= 0x7000 | <unsigned long long>(now.tv_nsec % 1_000_000) * 4096 // 1_000_000
    low = 0b10ULL << 62 | randoms[randoms_left] >> 2
    for index in range(8):
        id[7 - index] = <unsigned char>(high >> 8 * index & 0xFF)
        id[15 - index] = <unsigned char>(low >> 8 * index & 0xFF)
    return PyBytes_FromStringAndSize(<char *>id, 16)


cdef object new_object(kind):
    """What `object.__new__` makes of a class."""
    return new_of(kind, NO_NAMES)


cdef bint is_plain(value):
    """Whether it is a name beyond doubt: printable ASCII, and not one of the store's own."""
    if not PyUnicode_CheckExact(value) or not PyUnicode_IS_ASCII(value):
        return False
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(value), index
    cdef const unsigned char *text = PyUnicode_1BYTE_DATA(value)
    if length == 0 or length > MAX_NAME or text[0] == c"$":
        return False
    for index in range(length):
        if text[index] < 32 or text[index] > 126:
            return False
    return True


cdef tuple plain_tags(values):
    """The tags sorted and without repeats; None if one of them has to be looked at more closely."""
    cdef Py_ssize_t count
    if PyTuple_CheckExact(values):
        count = len(<tuple>values)
    elif PyList_CheckExact(values):
        count = len(<list>values)
    else:
        return None
    if count == 0:
        return NO_NAMES
    if count > MAX_TAGS:
        return None
    for value in values:
        if not is_plain(value):
            return None
    if count == 1:
        return (values[0],)
    if count == 2:
        first, second = values[0], values[1]
        if first < second:
            return first, second
        return (second, first) if second < first else (first,)
    return tuple(sorted(set(values)))


def fill_event(event, type, data, tags):
    """Fill an event of which no more than this was given; whether that was done."""
    if not PyBytes_CheckExact(data) or not is_plain(type):
        return False
    plain = plain_tags(tags)
    if plain is None:
        return False
    put_event(event, type, data, plain)
    return True


cdef object plain_event(str type, bytes data, tuple tags):
    """An event whose type and tags are checked."""
    event = new_object(EVENT)
    put_event(event, type, data, tags)
    return event


cdef int put_event(event, type, data, tuple tags) except -1:
    put_slot(event, &EVENT_TYPE, type)
    put_slot(event, &EVENT_DATA, data)
    put_slot(event, &EVENT_TAGS, tags)
    put_slot(event, &EVENT_ID, new_id())
    put_slot(event, &EVENT_METADATA, {})
    put_slot(event, &EVENT_STREAM, None)
    put_slot(event, &EVENT_SUBJECT, None)
    put_slot(event, &EVENT_KEY, None)
    return 0


def fill_item(item, types, tags, checked_types):
    """Fill a query item that has types and tags only; whether that was done."""
    cdef PyObject *known
    plain = plain_tags(tags)
    if plain is None or not PyTuple_CheckExact(types) and not PyList_CheckExact(types):
        return False
    listed = tuple(types)
    for name in listed:
        if not PyUnicode_CheckExact(name):
            return False
    known = PyDict_GetItem(type_lists, listed)
    if known == NULL:
        kept = checked_types(listed)
        if len(type_lists) >= MAX_TYPE_LISTS:
            type_lists.clear()
        type_lists[listed] = kept
    else:
        kept = <object>known
    put_item(item, kept, plain)
    return True


cdef int put_item(item, tuple types, tuple tags) except -1:
    put_slot(item, &ITEM_TYPES, types)
    put_slot(item, &ITEM_TAGS, tags)
    put_slot(item, &ITEM_EXCLUDED, NO_NAMES)
    put_slot(item, &ITEM_STREAM, None)
    put_slot(item, &ITEM_SUBJECT, None)
    put_slot(item, &ITEM_WHERE, None)
    put_slot(item, &ITEM_KEY, None)
    put_slot(item, &ITEM_IDENTITY, (types, tags, NO_NAMES, None, None, None, None))
    return 0


cdef object plain_query(tuple types, tuple tags):
    """The query of one item that has these types, which are checked, and these tags."""
    item, query = new_object(ITEM), new_object(QUERY)
    put_item(item, types, tags)
    put_slot(query, &QUERY_ITEMS, (item,))
    put_slot(query, &QUERY_HAS_WHERE, False)
    return query


def fill_query(query, items, kind, nothing_asked):
    """Fill a query of a few items that differ; whether that was done."""
    cdef Py_ssize_t index, other
    cdef tuple listed = tuple(items) if PyList_CheckExact(items) else items if PyTuple_CheckExact(items) else NO_NAMES
    cdef Py_ssize_t count = len(listed)
    cdef bint has_where = False
    if count == 0 or count > FEW_ITEMS:
        return False
    cdef list identities = []
    for item in listed:
        if type(item) is not kind:
            return False
        if get_slot(item, &ITEM_WHERE) is not None:
            has_where = True
        if count > 1:
            identities.append(get_slot(item, &ITEM_IDENTITY))
    for index in range(count if count > 1 else 0):
        if identities[index] == nothing_asked:
            return False
        for other in range(index):
            if identities[index] == identities[other]:
                return False
    put_slot(query, &QUERY_ITEMS, listed)
    put_slot(query, &QUERY_HAS_WHERE, has_where)
    return True


def fill_condition(condition, query, after, kind):
    """Fill a condition of a query and a position; whether that was done."""
    cdef int does_overflow = 0
    if type(query) is not kind or not PyLong_CheckExact(after):
        return False
    if PyLong_AsLongLongAndOverflow(after, &does_overflow) < 0 or does_overflow:
        return False
    put_slot(condition, &CONDITION_QUERY, query)
    put_slot(condition, &CONDITION_AFTER, after)
    put_slot(condition, &CONDITION_JOINED, None)
    return True


cdef object plain_condition(query, after):
    """The condition of a query and a position; None if they have to be looked at more closely."""
    condition = new_object(CONDITION)
    return condition if fill_condition(condition, query, after, QUERY) else None


cdef object joined_condition(tuple parts):
    """The condition of parts that differ."""
    if len(parts) == 1:
        return parts[0]
    joined = new_object(CONDITION)
    put_slot(joined, &CONDITION_JOINED, parts)
    return joined


def fill_request(request, events, condition, kind_of_event, kind_of_condition):
    """Fill a request of which no more than this was given; whether that was done."""
    cdef tuple listed
    if condition is not None and type(condition) is not kind_of_condition:
        return False
    if type(events) is kind_of_event:
        listed = (events,)
    else:
        listed = tuple(events) if PyList_CheckExact(events) else events if PyTuple_CheckExact(events) else NO_NAMES
        if not 1 <= len(listed) <= MAX_EVENTS:
            return False
        for event in listed:
            if type(event) is not kind_of_event:
                return False
    put_request(request, listed, condition)
    return True


cdef object plain_request(tuple events, condition):
    """The request to append some events."""
    request = new_object(REQUEST)
    put_request(request, events, condition)
    return request


cdef int put_request(request, tuple events, condition) except -1:
    put_slot(request, &REQUEST_EVENTS, events)
    put_slot(request, &REQUEST_CONDITION, condition)
    put_slot(request, &REQUEST_STREAM, None)
    put_slot(request, &REQUEST_UNLESS_EXISTS, None)
    put_slot(request, &REQUEST_TRACKING, None)
    return 0


def is_json(value):
    """Whether a value is a JSON value beyond doubt."""
    return is_plain_json(value, 0)


cdef bint is_plain_json(value, int depth):
    cdef PyObject *name
    cdef PyObject *inner
    cdef Py_ssize_t place = 0
    if PyUnicode_CheckExact(value) or PyLong_CheckExact(value) or value is None or PyBool_Check(value):
        return True
    if PyFloat_CheckExact(value):
        return isfinite(PyFloat_AS_DOUBLE(value))
    if depth == MAX_DEPTH:
        return False
    if PyDict_CheckExact(value):
        while PyDict_Next(value, &place, &name, &inner):
            if not PyUnicode_CheckExact(<object>name) or not is_plain_json(<object>inner, depth + 1):
                return False
        return True
    if PyList_CheckExact(value) or PyTuple_CheckExact(value):
        for each in value:
            if not is_plain_json(each, depth + 1):
                return False
        return True
    return False


def is_small(events, most_bytes, Py_ssize_t most_bytes_of_all):
    """Whether the data of events without metadata is within both limits for certain."""
    cdef Py_ssize_t size, total = 0
    cdef long long most
    cdef int does_overflow = 0
    if not PyTuple_CheckExact(events) or not PyLong_CheckExact(most_bytes):
        return False
    most = PyLong_AsLongLongAndOverflow(most_bytes, &does_overflow)
    if does_overflow:
        return False
    for event in <tuple>events:
        data = get_slot(event, &EVENT_DATA)
        if not PyBytes_CheckExact(data) or get_slot(event, &EVENT_METADATA):
            return False
        size = PyBytes_GET_SIZE(data)
        total += size
        if size > most:
            return False
    return total <= most_bytes_of_all
