# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Appends as they usually are, in native code: nothing newer is in the way, and all names are known.

`writer.py` says what an append means. `is_free` only ever says yes if the newest part of the index, which is in
memory, leaves no doubt; `insert` is `Writer._insert`.
"""

from ...append import AppendCondition, AppendRequest, AppendResult
from ...errors import StrandlineError
from ...event import Event, encode_metadata, split_tags
from ...names import index_tags
from ...query import Query, QueryItem
from .recent import TYPE_BITS as PYTHON_TYPE_BITS
from .recent import Segment

from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_Join
from libc.stdio cimport snprintf

from ...slots cimport Slot, find_slot, get_slot

cdef enum:
    TYPE_BITS = 31
    EVERY_EVENT = 0
    ARGUMENT_BYTES = 24  # of a number as text, and a blank

assert TYPE_BITS == PYTHON_TYPE_BITS

cdef str NEWLINE = "\n"

cdef Slot REQUEST_EVENTS, REQUEST_CONDITION, REQUEST_UNLESS_EXISTS, REQUEST_TRACKING
find_slot(&REQUEST_EVENTS, AppendRequest, "events")
find_slot(&REQUEST_CONDITION, AppendRequest, "condition")
find_slot(&REQUEST_UNLESS_EXISTS, AppendRequest, "unless_exists")
find_slot(&REQUEST_TRACKING, AppendRequest, "tracking")

cdef Slot PART_QUERY, PART_AFTER, CONDITION_PARTS
find_slot(&PART_QUERY, AppendCondition, "fail_if_events_match")
find_slot(&PART_AFTER, AppendCondition, "after")
find_slot(&CONDITION_PARTS, AppendCondition, "_joined")

cdef Slot QUERY_ITEMS, QUERY_HAS_WHERE
find_slot(&QUERY_ITEMS, Query, "items")
find_slot(&QUERY_HAS_WHERE, Query, "has_where")

cdef Slot ITEM_TYPES, ITEM_EXCLUDED, ITEM_TAGS, ITEM_STREAM, ITEM_SUBJECT, ITEM_KEY
find_slot(&ITEM_TYPES, QueryItem, "types")
find_slot(&ITEM_EXCLUDED, QueryItem, "exclude_types")
find_slot(&ITEM_TAGS, QueryItem, "tags")
find_slot(&ITEM_STREAM, QueryItem, "stream")
find_slot(&ITEM_SUBJECT, QueryItem, "subject")
find_slot(&ITEM_KEY, QueryItem, "key")

cdef Slot EVENT_TYPE, EVENT_DATA, EVENT_TAGS, EVENT_STREAM, EVENT_SUBJECT, EVENT_ID, EVENT_METADATA, EVENT_KEY
find_slot(&EVENT_TYPE, Event, "type")
find_slot(&EVENT_DATA, Event, "data")
find_slot(&EVENT_TAGS, Event, "tags")
find_slot(&EVENT_STREAM, Event, "stream")
find_slot(&EVENT_SUBJECT, Event, "subject")
find_slot(&EVENT_ID, Event, "raw_id")
find_slot(&EVENT_METADATA, Event, "metadata")
find_slot(&EVENT_KEY, Event, "key")

cdef Slot SEGMENT_HEAD, SEGMENT_POSITIONS, SEGMENT_TYPES
find_slot(&SEGMENT_HEAD, Segment, "head")
find_slot(&SEGMENT_POSITIONS, Segment, "_positions")
find_slot(&SEGMENT_TYPES, Segment, "_types")


cdef class Plain:
    """What `Writer` does for most appends."""

    cdef object search, interning, intern, time
    cdef dict known, type_numbers, shapes
    cdef list rows
    cdef bint records_conditions

    def __init__(self, search, interning, time, dict shapes, list rows, records_conditions):
        self.search = search
        self.interning = interning
        self.intern = interning.intern
        self.known = interning.known
        self.type_numbers = search.type_numbers
        self.time = time
        self.shapes = shapes
        self.rows = rows
        self.records_conditions = records_conditions

    def unknown(self, batch):
        """Names in the works of a batch that were not met before."""
        cdef set found = set()
        for work in batch:
            if type(work) is not AppendRequest:
                continue
            for event in <tuple>get_slot(work, &REQUEST_EVENTS):
                self.collect(found, get_slot(event, &EVENT_TAGS))
            condition = get_slot(work, &REQUEST_CONDITION)
            if condition is not None:
                for part in parts_of(condition):
                    for item in <tuple>get_slot(get_slot(part, &PART_QUERY), &QUERY_ITEMS):
                        self.collect(found, get_slot(item, &ITEM_TAGS))
        return found

    def outcomes(self, writer, batch):
        """See `Judge.outcome`, for each work of a batch."""
        cdef list found = []
        for work in batch:
            if type(work) is AppendRequest and self.is_free(work, <set>writer._taken, writer._retagged_at):
                events, condition = get_slot(work, &REQUEST_EVENTS), get_slot(work, &REQUEST_CONDITION)
                try:
                    found.append(self.insert(writer, events, condition))
                except StrandlineError as error:
                    found.append(error)
            else:
                found.append(writer.outcome(work))
        return found

    cdef int collect(self, set found, tuple tags) except -1:
        for tag in tags:
            if PyDict_GetItem(self.known, tag) == NULL:
                found.add(tag)
        return 0

    cdef bint is_free(self, request, set taken, long long retagged_at) except -1:
        """Whether the append is to be written for certain; if not, `Judge` knows."""
        if get_slot(request, &REQUEST_UNLESS_EXISTS) is not None or get_slot(request, &REQUEST_TRACKING) is not None:
            return False
        cdef tuple events = get_slot(request, &REQUEST_EVENTS)
        cdef long long after, head, indexed_to
        cdef set ids
        if len(events) == 1:
            if get_slot(events[0], &EVENT_ID) in taken:
                return False
        else:
            ids = {get_slot(event, &EVENT_ID) for event in events}
            if len(ids) < len(events) or not ids.isdisjoint(taken):
                return False
        condition = get_slot(request, &REQUEST_CONDITION)
        if condition is None:
            return True
        search = self.search
        head, indexed_to = search.head, search.indexed_to
        cdef tuple segments = search.segments
        for part in parts_of(condition):
            after = get_slot(part, &PART_AFTER)
            if after == head:
                continue
            query = get_slot(part, &PART_QUERY)
            if after > head or after < indexed_to or after < retagged_at or get_slot(query, &QUERY_HAS_WHERE):
                return False
            for item in <tuple>get_slot(query, &QUERY_ITEMS):
                if not self.has_nothing_newer(item, segments, after):
                    return False
        return True

    cdef bint has_nothing_newer(self, item, tuple segments, long long after) except -1:
        cdef tuple tags = get_slot(item, &ITEM_TAGS), types = get_slot(item, &ITEM_TYPES)
        cdef PyObject *found
        cdef list numbers = None
        cdef long long number
        if has_more_than_tags(item):
            tags = item.index_tags()
        if types:
            found = PyDict_GetItem(self.type_numbers, types)
            if found == NULL:
                return False
            numbers = <list>found
        if not tags:
            return is_older(segments, EVERY_EVENT, numbers, after)
        for tag in tags:  # an event of the item carries all of them
            found = PyDict_GetItem(self.known, tag)
            known = self.interning.find(tag) if found == NULL else <object>found
            if known is None:
                return True  # no event has ever carried it
            number = known
            if is_older(segments, number, numbers, after):
                return True
        return False

    def insert(self, writer, events, guard):
        """See `Writer._insert`."""
        search = self.search
        cdef long long first = search.head + 1, position = first, entries = 0
        recorded_at = search.recorded_at = self.time.now(search.recorded_at)
        append = writer._appends = writer._appends + 1
        shape, arguments = self.recorded(writer, guard, first)
        span = None if len(events) == 1 else len(events)
        new, taken = writer._new, <set>writer._taken
        cdef dict positions = get_slot(new, &SEGMENT_POSITIONS)
        cdef set types = get_slot(new, &SEGMENT_TYPES)
        cdef tuple tags, own
        cdef long long type_
        for event in events:
            own, stream = get_slot(event, &EVENT_TAGS), get_slot(event, &EVENT_STREAM)
            subject, key = get_slot(event, &EVENT_SUBJECT), get_slot(event, &EVENT_KEY)
            tags = own if stream is None and subject is None and key is None else index_tags(own, stream, subject, key)
            name = get_slot(event, &EVENT_TYPE)
            number = self.number(name)
            type_ = number
            types.add(number)
            add(positions, EVERY_EVENT, type_, position)
            for tag in tags:
                add(positions, self.number(tag), type_, position)
            entries += 1 + len(tags)
            id_, metadata = get_slot(event, &EVENT_ID), get_slot(event, &EVENT_METADATA)
            taken.add(id_)
            self.rows.append((
                position,
                name,
                get_slot(event, &EVENT_DATA),
                PyUnicode_Join(NEWLINE, own) if key is None else event.raw_tags,
                stream,
                subject,
                id_,
                encode_metadata(metadata) if metadata else None,
                recorded_at,
                append,
                span,
                shape,
                arguments,
            ))
            position += 1
            append, span, shape, arguments = None, first - position, None, None
        position -= 1
        new.head = search.head = position
        writer._new_entries += entries
        return AppendResult(first, position, len(events))

    cdef object number(self, name):
        cdef PyObject *found = PyDict_GetItem(self.known, name)
        return self.intern(name) if found == NULL else <object>found

    cdef tuple recorded(self, writer, guard, long long first):
        if guard is None:
            return None, None
        cdef list shape = [], items
        cdef list numbers = []
        cdef tuple tags
        cdef bint has_where = False
        for part in parts_of(guard):
            query = get_slot(part, &PART_QUERY)
            if get_slot(query, &QUERY_HAS_WHERE):
                has_where = True
                break
            numbers.append(first - 1 - <long long>get_slot(part, &PART_AFTER))
            items = []
            for item in <tuple>get_slot(query, &QUERY_ITEMS):
                tags = get_slot(item, &ITEM_TAGS)
                length = len(tags)
                if has_more_than_tags(item):
                    tags = item.index_tags()
                for tag in tags:
                    numbers.append(self.number(tag))
                stream, subject = get_slot(item, &ITEM_STREAM), get_slot(item, &ITEM_SUBJECT)
                key = get_slot(item, &ITEM_KEY)
                types, excluded = get_slot(item, &ITEM_TYPES), get_slot(item, &ITEM_EXCLUDED)
                described = (types, excluded, length, stream is not None, subject is not None)
                items.append(described if key is None else described + (True,))
            shape.append(tuple(items))
        if has_where or not self.records_conditions:
            return writer._recorded(guard, first)
        described = tuple(shape)
        cdef PyObject *found = PyDict_GetItem(self.shapes, described)
        return writer._shape(described) if found == NULL else <object>found, joined(numbers)


cdef tuple parts_of(condition):
    joined = get_slot(condition, &CONDITION_PARTS)
    return (condition,) if joined is None else joined


cdef bint has_more_than_tags(item):
    return (
        get_slot(item, &ITEM_STREAM) is not None
        or get_slot(item, &ITEM_SUBJECT) is not None
        or get_slot(item, &ITEM_KEY) is not None
    )


def names_in(list rows):
    """See `recent.py`."""
    cdef set found = set()
    for position, name, tags, stream, subject in rows:
        found.add(name)
        if stream is None and subject is None:
            if tags:
                found.update((<str>tags).split(NEWLINE))
        else:
            found.update(index_tags(split_tags(tags), stream, subject, None))
    return found


def add_rows(segment, list rows, dict known, find):
    """See `recent.py`."""
    cdef dict positions = segment._positions
    cdef set types = segment._types
    cdef long long position, type_
    for where, name, tags, stream, subject in rows:
        number = numbered(name, known, find)
        position, type_ = where, number
        types.add(number)
        add(positions, EVERY_EVENT, type_, position)
        if stream is None and subject is None:
            listed = (<str>tags).split(NEWLINE) if tags else ()
        else:
            listed = index_tags(split_tags(tags), stream, subject, None)
        for tag in listed:
            add(positions, numbered(tag, known, find), type_, position)
        segment.head = where


cdef object numbered(name, dict known, find):
    cdef PyObject *found = PyDict_GetItem(known, name)
    return find(name) if found == NULL else <object>found


cdef bint is_older(tuple segments, long long tag, list types, long long after) except -1:
    """Whether the segments have nothing under the tag, and one of the types, after a position."""
    cdef PyObject *found
    cdef Py_ssize_t count
    for segment in segments:
        if <long long>get_slot(segment, &SEGMENT_HEAD) <= after:
            continue
        positions = <dict>get_slot(segment, &SEGMENT_POSITIONS)
        for type_ in get_slot(segment, &SEGMENT_TYPES) if types is None else types:
            found = PyDict_GetItem(positions, tag << TYPE_BITS | <long long>type_)
            if found != NULL:
                count = PyList_GET_SIZE(<list>found)
                if <long long><object>PyList_GET_ITEM(<list>found, count - 1) > after:
                    return False
    return True


cdef int add(dict positions, long long tag, long long type_, long long position) except -1:
    key = tag << TYPE_BITS | type_
    cdef PyObject *found = PyDict_GetItem(positions, key)
    if found == NULL:
        positions[key] = [position]
    else:
        (<list>found).append(position)
    return 0


cdef str joined(list numbers):
    cdef char text[ARGUMENT_BYTES * 32]
    cdef int length = 0
    if len(numbers) > 32:
        return " ".join(map(str, numbers))
    for number in numbers:
        length += snprintf(text + length, ARGUMENT_BYTES, "%lld ", <long long>number)
    return PyUnicode_DecodeASCII(text, length - 1, NULL)
