# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Appends as they usually are, in native code: nothing newer is in the way, and all names are known.

`writer.py` says what an append means. `is_free` only ever says yes if the newest part of the index, which is in
memory, leaves no doubt; `insert` is `Writer._insert`.
"""

from ...append import AppendRequest, AppendResult
from ...event import encode_metadata, split_tags
from ...names import index_tags
from .recent import TYPE_BITS as PYTHON_TYPE_BITS

from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_Join
from libc.stdio cimport snprintf

cdef enum:
    TYPE_BITS = 31
    EVERY_EVENT = 0
    ARGUMENT_BYTES = 24  # of a number as text, and a blank

assert TYPE_BITS == PYTHON_TYPE_BITS

cdef str NEWLINE = "\n"


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
            for event in <tuple>work.events:
                self.collect(found, event.tags)
            condition = work.condition
            if condition is not None:
                for part in <tuple>condition.parts:
                    for item in <tuple>part.fail_if_events_match.items:
                        self.collect(found, item.tags)
        return found

    cdef int collect(self, set found, tuple tags) except -1:
        for tag in tags:
            if PyDict_GetItem(self.known, tag) == NULL:
                found.add(tag)
        return 0

    def is_free(self, request, set taken, long long retagged_at):
        """Whether the append is to be written for certain; if not, `Judge` knows."""
        if request.unless_exists is not None:
            return False
        cdef tuple events = request.events
        cdef long long after, head, indexed_to
        for event in events:
            if event.raw_id in taken:
                return False
        if len(events) > 1 and len({event.raw_id for event in events}) < len(events):
            return False
        condition = request.condition
        if condition is None:
            return True
        search = self.search
        head, indexed_to = search.head, search.indexed_to
        cdef tuple segments = search.segments
        for part in <tuple>condition.parts:
            after = part.after
            if after == head:
                continue
            query = part.fail_if_events_match
            if after > head or after < indexed_to or after < retagged_at or query.has_where:
                return False
            for item in <tuple>query.items:
                if not self.has_nothing_newer(item, segments, after):
                    return False
        return True

    cdef bint has_nothing_newer(self, item, tuple segments, long long after) except -1:
        cdef tuple tags = item.tags, types = item.types
        cdef PyObject *found
        cdef list numbers = None
        cdef long long number
        if item.stream is not None or item.subject is not None or item.key is not None:
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
        cdef dict positions = new._positions
        cdef set types = new._types
        cdef tuple tags, own
        cdef long long type_
        for event in events:
            own, stream, subject, key = event.tags, event.stream, event.subject, event.key
            tags = own if stream is None and subject is None and key is None else index_tags(own, stream, subject, key)
            name = event.type
            number = self.number(name)
            type_ = number
            types.add(number)
            add(positions, EVERY_EVENT, type_, position)
            for tag in tags:
                add(positions, self.number(tag), type_, position)
            entries += 1 + len(tags)
            id_, metadata = event.raw_id, event.metadata
            taken.add(id_)
            self.rows.append((
                position,
                name,
                event.data,
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
        for part in <tuple>guard.parts:
            query = part.fail_if_events_match
            if query.has_where:
                has_where = True
                break
            numbers.append(first - 1 - part.after)
            items = []
            for item in <tuple>query.items:
                tags = item.tags
                stream, subject, key = item.stream, item.subject, item.key
                length = len(tags)
                if stream is not None or subject is not None or key is not None:
                    tags = item.index_tags()
                for tag in tags:
                    numbers.append(self.number(tag))
                described = (item.types, item.exclude_types, length, stream is not None, subject is not None)
                items.append(described if key is None else described + (True,))
            shape.append(tuple(items))
        if has_where or not self.records_conditions:
            return writer._recorded(guard, first)
        described = tuple(shape)
        cdef PyObject *found = PyDict_GetItem(self.shapes, described)
        return writer._shape(described) if found == NULL else <object>found, joined(numbers)


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
        if segment.head <= after:
            continue
        positions = <dict>segment._positions
        for type_ in segment._types if types is None else types:
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
