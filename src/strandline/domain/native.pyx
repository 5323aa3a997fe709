# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Decisions as they usually are, in native code: members with nothing folded yet, their folds, and what is appended.

The rules are in `member.py`, `boundary.py`, `projection.py` and `appending.py`. Whatever is not plainly usual is left
to them, and nothing is refused here. After a flush or a switch to another thread the caches of the processor are
cold, and a decision costs what it touches: there is less of that here than in the objects of Python code.
"""

from copy import deepcopy

from ..append import MAX_EVENTS, AppendRequest
from ..event import Event, SequencedEvent
from ..query import Query, QueryItem

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.string cimport memchr, memcmp

from ..native cimport (
    joined_condition,
    new_object,
    plain_condition,
    plain_event,
    plain_query,
    plain_request,
    plain_tags,
)
from ..slots cimport Slot, find_slot, get_slot, put_slot

cdef extern from *:
    """
    #define new_text(kind, values, names) PyUnicode_Type.tp_new((PyTypeObject *) (kind), values, names)
    #define is_kind_of_text(kind) (PyType_Check(kind) && PyType_IsSubtype((PyTypeObject *) (kind), &PyUnicode_Type))
    """
    object new_text(object kind, tuple values, PyObject *names)
    bint is_kind_of_text(object kind)

cdef extern from "Python.h":
    bint PyFunction_Check(PyObject *)
    bint PyMethod_Check(object)
    PyObject *PyFunction_GET_CODE(PyObject *)
    PyObject *PyMethod_GET_FUNCTION(object)
    int PyObject_GenericSetAttr(object, object, object) except -1
    bint PyUnicode_IS_ASCII(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)
    str PyUnicode_Concat(object, object)
    str PyUnicode_FromObject(object)
    const unsigned char *PyUnicode_1BYTE_DATA(object)

cdef enum:  # the places in the layout of a projection, see `shape.py`
    PROJECTION, IS_PLAIN, NAMES, KINDS, BEGINNINGS, DEFAULTS, TYPES, IS_GUARDED_WHOLE, HAS_SNAPSHOTS, ATOMS

cdef enum:  # the places in a way of it
    WAY_TYPE, WAY_HANDLER, WAY_SEEN, WAY_NOT_SEEN

cdef enum:  # the places in a route, see `boundary.py`
    MEMBER, HANDLE, TAKES_RECORDED, CLASS, READ, DECODE, TAGS, HEAD, COUNTS

cdef enum:  # the places in the layout of an event, see `event_shape.py`
    EVENT_CLASS, EVENT_TYPE, EVENT_DECODE, EVENT_IS_FIXED, EVENT_TAG_FIELDS, EVENT_TIME_FIELDS

cdef Slot WRITTEN_TYPE, EVENT_TAGS, QUERY_ITEMS, ITEM_TAGS
find_slot(&WRITTEN_TYPE, Event, "type")
find_slot(&EVENT_TAGS, Event, "tags")
find_slot(&QUERY_ITEMS, Query, "items")
find_slot(&ITEM_TAGS, QueryItem, "tags")

cdef Slot RECORDED_POSITION, RECORDED_TYPE, RECORDED_DATA, RECORDED_TAGS, RECORDED_METADATA
find_slot(&RECORDED_POSITION, SequencedEvent, "position")
find_slot(&RECORDED_TYPE, SequencedEvent, "type")
find_slot(&RECORDED_DATA, SequencedEvent, "data")
find_slot(&RECORDED_TAGS, SequencedEvent, "raw_tags")
find_slot(&RECORDED_METADATA, SequencedEvent, "raw_metadata")

cdef object MEMBER_CLASS = None
cdef Slot MEMBER_STATE, MEMBER_KEY, MEMBER_SHAPE, MEMBER_QUERY, MEMBER_ITEM, MEMBER_HEAD, MEMBER_IS_KEPT
cdef Slot MEMBER_IS_OWN
cdef Slot HANDLER_NAME, HANDLER_TAKES_RECORDED, HANDLER_BLIND_CODE


def know_members(member):
    """Learn where members keep what they have."""
    global MEMBER_CLASS
    MEMBER_CLASS = member
    find_slot(&MEMBER_STATE, member, "state")
    find_slot(&MEMBER_KEY, member, "key")
    find_slot(&MEMBER_SHAPE, member, "shape")
    find_slot(&MEMBER_QUERY, member, "query")
    find_slot(&MEMBER_ITEM, member, "item")
    find_slot(&MEMBER_HEAD, member, "head")
    find_slot(&MEMBER_IS_OWN, member, "is_own")
    find_slot(&MEMBER_IS_KEPT, member, "is_kept")


def know_handlers(handler):
    """Learn where handlers keep what they have."""
    find_slot(&HANDLER_NAME, handler, "name")
    find_slot(&HANDLER_TAKES_RECORDED, handler, "takes_recorded")
    find_slot(&HANDLER_BLIND_CODE, handler, "blind_code")


def as_json(value):
    """See `tag_id.py`."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a value of the type {type(value).__name__} has no JSON form")


def decode_tag_id(kind, value):
    """See `codec.py`."""
    if PyUnicode_CheckExact(value) and PyUnicode_GET_LENGTH(value) > 0 and kind is not object:
        if is_kind_of_text(kind):
            return new_text(kind, (value,), NULL)  # what `str.__new__` does, without looking that up
        return str.__new__(kind, value)  # which tells what is wrong
    return value if kind is object else kind(value)


def bind(tuple args, tuple kinds, frozenset plain):
    """The projections among arguments, and their places; None if one of the arguments has to be looked at more closely."""
    cdef Py_ssize_t place
    cdef list projections = [], places = []
    if len(args) != len(kinds):
        return None
    for place in range(len(args)):
        value, kind = args[place], kinds[place]
        if kind is None:
            if type(value) not in plain:
                return None
        elif type(value) is not kind:
            return None
        else:
            projections.append(value)
            places.append(place)
    return projections, places


cdef tuple layout_of(kind):
    """The layout of a projection class; None if it is not known, not its own or not plain."""
    shape = kind.__shape__
    if shape is None:
        return None
    layout = <tuple?>shape.layout
    return layout if layout[PROJECTION] is kind and layout[IS_PLAIN] is True else None


def begin_state(state, tuple values):
    """Give a new state its key and what it begins with; whether the values are plain texts, as many as it has keys."""
    cdef Py_ssize_t index
    cdef tuple layout = layout_of(type(state)), kinds
    cdef list key = []
    if layout is None:
        return False
    kinds = layout[KINDS]
    if len(values) != len(kinds) or not layout[TYPES]:
        return False
    for index in range(len(values)):
        value = values[index]
        if type(value) is not kinds[index]:
            if not PyUnicode_CheckExact(value) or PyUnicode_GET_LENGTH(value) == 0:
                return False
            value = new_text(kinds[index], (value,), NULL)
        key.append(value)
    put_fields(state, layout[NAMES], key, layout[DEFAULTS])
    return True


def fill_state(state, tuple names, tuple key, list defaults):
    """See `Shape.fill`."""
    put_fields(state, names, key, defaults)


cdef int put_fields(state, tuple names, key, list defaults) except -1:
    cdef Py_ssize_t index
    cdef tuple field
    for index in range(len(names)):
        PyObject_GenericSetAttr(state, names[index], key[index])
    for field in defaults:
        PyObject_GenericSetAttr(state, field[0], field[1] if field[2] is True else deepcopy(field[1]))
    return 0


def copy_plain(state):
    """A copy of a state whose values are known to need none themselves; None if it has to be looked at more closely."""
    kind = type(state)
    shape = kind.__shape__
    if shape is None or (<tuple?>shape.layout)[PROJECTION] is not kind:
        return None
    cdef set atoms = (<tuple>shape.layout)[ATOMS]
    cdef dict fields = state.__dict__
    for value in fields.values():
        if type(value) not in atoms:
            return None
    twin = new_object(kind)
    twin.__dict__ = fields.copy()
    return twin


def query_of_key(tuple types, tuple key, tuple kinds, tuple beginnings):
    """The query of one item with these types and the tags of a key, which begin so; None if it is no plain one."""
    cdef Py_ssize_t index
    cdef list tags = []
    for index in range(len(key)):
        if type(key[index]) is not kinds[index]:
            return None
        tags.append(PyUnicode_Concat(beginnings[index], key[index]))
    plain = plain_tags(tags)
    return None if plain is None else plain_query(types, plain)


def begin(list projections):
    """See `Member.begin`; None if one of the projections has to be looked at more closely."""
    cdef list members = []
    cdef tuple layout, key
    for projection in projections:
        kind = type(projection)
        layout = layout_of(kind)
        if layout is None:
            return None
        key = tuple([getattr(projection, name) for name in <tuple>layout[NAMES]])
        query = query_of_key(layout[TYPES], key, layout[KINDS], layout[BEGINNINGS])
        if query is None:
            return None
        state = new_object(kind)
        put_fields(state, layout[NAMES], key, layout[DEFAULTS])
        item = (<tuple?>get_slot(query, &QUERY_ITEMS))[0]
        members.append(MEMBER_CLASS(state, key, kind.__shape__, query, item))
    return members


def fold(list members, list events, unseen):
    """See `boundary.py`."""
    if not events:
        return
    take_events(events, routes_of(members), unseen)
    for member in members:
        if not has_its_key(member):
            member.check_key()


cdef dict routes_of(list members):
    """See `boundary.py`."""
    cdef dict routes = {}
    cdef tuple way, reading
    cdef PyObject *known
    for member in members:
        state = member.changing_state() if get_slot(member, &MEMBER_IS_KEPT) else get_slot(member, &MEMBER_STATE)
        put_slot(member, &MEMBER_IS_OWN, False)
        shape = get_slot(member, &MEMBER_SHAPE)
        tags = get_slot(get_slot(member, &MEMBER_ITEM), &ITEM_TAGS)
        head = get_slot(member, &MEMBER_HEAD)
        counts = (<tuple?>shape.layout)[HAS_SNAPSHOTS]
        for way in <list?>shape.ways:
            handler = way[WAY_HANDLER]
            handle = getattr(state, get_slot(handler, &HANDLER_NAME))
            reading = way[WAY_NOT_SEEN] if is_blind(handler, handle) else way[WAY_SEEN]
            takes_recorded = get_slot(handler, &HANDLER_TAKES_RECORDED)
            route = (member, handle, takes_recorded, reading[0], reading[1], reading[2], tags, head, counts)
            known = PyDict_GetItem(routes, way[WAY_TYPE])
            if known == NULL:
                routes[way[WAY_TYPE]] = [route]
            else:
                (<list>known).append(route)
    return routes


cdef bint is_blind(handler, handle) except -1:
    """See `handlers.py`."""
    cdef PyObject *function
    code = get_slot(handler, &HANDLER_BLIND_CODE)
    if code is None:
        return False
    if PyMethod_Check(handle):
        function = PyMethod_GET_FUNCTION(handle)
        if PyFunction_Check(function):
            return PyFunction_GET_CODE(function) == <PyObject *>code
    return handler.is_blind(handle)


cdef bint has_its_key(member) except -1:
    cdef Py_ssize_t index
    cdef tuple layout = (<tuple?>get_slot(member, &MEMBER_SHAPE).layout)
    cdef tuple key = get_slot(member, &MEMBER_KEY), names = layout[NAMES]
    state = get_slot(member, &MEMBER_STATE)
    for index in range(len(names)):
        if getattr(state, names[index]) is not key[index]:
            return False
    return True


cdef int take_events(list events, dict routes, unseen) except -1:
    """Hand each event to those who wait for its type."""
    cdef PyObject *found
    cdef list going
    cdef tuple route
    cdef long long has_up_to
    cdef bint is_shared, is_handling = False
    event, route = None, None
    try:
        for event in events:
            found = PyDict_GetItem(routes, get_slot(event, &RECORDED_TYPE))
            if found == NULL:
                continue
            going = <list>found
            is_shared = len(going) > 1
            decoded = None
            for route in going:
                has_up_to = route[HEAD]
                if has_up_to > 0 and <long long>get_slot(event, &RECORDED_POSITION) <= has_up_to:
                    continue
                if is_shared and not has_tags(event, route[TAGS]):
                    continue
                if type(decoded) is not route[CLASS]:
                    decoded = read_quickly(event, route[DECODE], route[READ], unseen)
                is_handling = True
                if route[TAKES_RECORDED] is True:
                    route[HANDLE](decoded, event)
                else:
                    route[HANDLE](decoded)
                is_handling = False
                if route[COUNTS] is True:
                    route[MEMBER].unsaved += 1
    except Exception as error:
        if is_handling:
            name = type(route[MEMBER].state).__name__
            error.add_note(f"while {name} took event {event.position}, a {event.type}")
        raise
    return 0


cdef object read_quickly(event, decode, read, unseen):
    if decode is not None and get_slot(event, &RECORDED_METADATA) is None:
        if decode is unseen:
            return unseen
        try:
            return decode(get_slot(event, &RECORDED_DATA))
        except Exception:
            pass  # what is wrong is told by the careful way
    return read(event)


cdef bint has_tags(event, tuple tags):
    lines = <str?>get_slot(event, &RECORDED_TAGS)
    for tag in tags:
        if not has_line(lines, <str>tag):
            return False
    return True


cdef bint has_line(str lines, str line):
    """Whether one of the lines of a text, which are joined by line breaks, is this one."""
    if not PyUnicode_IS_ASCII(lines) or not PyUnicode_IS_ASCII(line):
        return "\n" + line + "\n" in "\n" + lines + "\n"
    cdef const unsigned char *rest = PyUnicode_1BYTE_DATA(lines)
    cdef const unsigned char *end
    cdef size_t left = PyUnicode_GET_LENGTH(lines), wanted = PyUnicode_GET_LENGTH(line), found
    cdef const unsigned char *text = PyUnicode_1BYTE_DATA(line)
    while True:
        end = <const unsigned char *>memchr(rest, c"\n", left)
        found = left if end == NULL else <size_t>(end - rest)
        if found == wanted and memcmp(rest, text, wanted) == 0:
            return True
        if end == NULL:
            return False
        rest = end + 1
        left -= found + 1


def append_of(list members, list decided, encode):
    """See `appending.py`: the request, and each event with what a reader makes of it; None if not all is plain."""
    cdef list written = [], events = []
    cdef tuple layout
    if len(decided) > <Py_ssize_t>MAX_EVENTS:
        return None
    for event in decided:
        kind = type(event)
        shape = None if kind is Event else getattr(kind, "__shape__", None)
        layout = None if shape is None else shape.layout
        if layout is None or layout[EVENT_CLASS] is not kind:
            return None
        try:
            data = encode(event)
            if b"null" in data:
                return None
            read = layout[EVENT_DECODE](data)
        except Exception:
            return None  # what is wrong is told by the careful way
        tags = tags_of_fields(event, layout[EVENT_TAG_FIELDS])
        if tags is None or not has_zones(event, layout[EVENT_TIME_FIELDS]) or not goes_with(members, kind, layout[EVENT_TYPE], tags):
            return None
        made = plain_event(layout[EVENT_TYPE], data, tags)
        events.append(made)
        written.append((made, read if layout[EVENT_IS_FIXED] is True else None))
    condition = condition_of(members)
    return None if condition is None else (plain_request(tuple(events), condition), written)


def name_of(projection):
    """See `member.py`; None if the projection has to be looked at more closely."""
    cdef tuple layout = layout_of(type(projection))
    if layout is None:
        return None
    cdef list name = [layout[PROJECTION]]
    for field in <tuple>layout[NAMES]:
        name.append(PyUnicode_FromObject(getattr(projection, field)))
    return tuple(name)


def advanced(member, list written, head):
    """See `boundary.py`."""
    cdef list mine = []
    cdef tuple tags = get_slot(get_slot(member, &MEMBER_ITEM), &ITEM_TAGS), each, handled
    cdef PyObject *found
    shape = get_slot(member, &MEMBER_SHAPE)
    for each in written:
        found = PyDict_GetItem(<dict?>shape.handlers, get_slot(each[0], &WRITTEN_TYPE))
        if found != NULL and has_all(<tuple?>get_slot(each[0], &EVENT_TAGS), tags):
            mine.append((<object>found, each))
    after = member.twin()
    put_slot(after, &MEMBER_HEAD, head)
    put_slot(after, &MEMBER_IS_OWN, True)
    if not mine:
        return after
    after.unsaved += len(mine)
    state = get_slot(member, &MEMBER_STATE)
    if state._last_only:
        state, mine = state._fresh(), mine[-1:]
    else:
        copied = copy_plain(state)
        state = state._copy() if copied is None else copied
    put_slot(after, &MEMBER_STATE, state)
    for handled, each in mine:
        read = each[1] if type(each[1]) is handled[1] else handled[1].from_event(each[0])
        getattr(state, get_slot(handled[0], &HANDLER_NAME))(read)
    if not has_its_key(after):
        after.check_key()
    return after


cdef bint has_all(tuple carried, tuple tags) except -1:
    for tag in tags:
        if tag not in carried:
            return False
    return True


cdef tuple tags_of_fields(event, tuple fields):
    """The tags of an event, whose fields have one id each; None if not all are plain."""
    cdef tuple field
    cdef list tags = []
    for field in fields:
        value = getattr(event, field[0])
        if type(value) is not field[1]:
            return None
        tags.append(PyUnicode_Concat(field[2], value))
    return plain_tags(tags)


cdef bint has_zones(event, tuple fields) except -1:
    """Whether the times in these fields have a zone."""
    for name in fields:
        value = getattr(event, name)
        if value is not None and getattr(value, "tzinfo", None) is None:
            return False
    return True


cdef bint goes_with(list members, kind, str type_, tuple tags) except -1:
    """Whether such a decision will find an event again, and all projections know its type as this class."""
    cdef PyObject *handled
    cdef bint is_found = False, is_scoped = False
    for member in members:
        handled = PyDict_GetItem(<dict?>get_slot(member, &MEMBER_SHAPE).handlers, type_)
        if handled != NULL and (<tuple>handled)[1] is not kind:
            return False
        for tag in <tuple?>get_slot(get_slot(member, &MEMBER_ITEM), &ITEM_TAGS):
            is_scoped = True
            if tag in tags:
                is_found = True
    return is_found or not is_scoped


cdef object condition_of(list members):
    """See `boundary.unchanged`; None if the boundary has two projections of a class, or events that spoil nothing."""
    cdef list parts = [], shapes = []
    for member in members:
        shape = get_slot(member, &MEMBER_SHAPE)
        if (<tuple?>shape.layout)[IS_GUARDED_WHOLE] is not True:
            return None
        for other in shapes:
            if other is shape:
                return None
        shapes.append(shape)
        part = plain_condition(get_slot(member, &MEMBER_QUERY), get_slot(member, &MEMBER_HEAD))
        if part is None:
            return None
        parts.append(part)
    return joined_condition(tuple(parts))
