# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The statements of a connection, run without apsw's cursor and its rows in between.

apsw opens the connection and says what an error is; this is `cursor.py` again, for one thread at a time as well.
Others may run Python while a transaction begins or ends, while rows are inserted, and, if the cursor is patient,
now and then while rows are read. For short reads to let go of the interpreter's lock would cost more than the read.
"""

import re

import apsw

from ...event import SequencedEvent
from ...query import QueryItem
from .statements import sql

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.long cimport PyLong_AsLongLong, PyLong_Check, PyLong_FromLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_Check, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uintptr_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp

from ...slots cimport Slot, find_slot, get_slot, put_slot

cdef extern from *:
    """
    typedef struct sqlite3 sqlite3;
    typedef struct sqlite3_stmt sqlite3_stmt;

    /* SQLite gives extensions that it loads a table of its functions, and promises to only ever add to its end
       (https://sqlite.org/loadext.html). So neither its library nor its headers are needed to call it. */
    static void **table;

    #if defined(_WIN32)
    __declspec(dllexport)
    #else
    __attribute__((visibility("default")))
    #endif
    int strandline_learn_functions(sqlite3 *database, char **error, void **functions) {
        table = functions;
        return 0;
    }

    #define bind_blob ((int (*)(sqlite3_stmt *, int, const void *, int, void *)) table[2])
    #define bind_int64 ((int (*)(sqlite3_stmt *, int, int64_t)) table[5])
    #define bind_null ((int (*)(sqlite3_stmt *, int)) table[6])
    #define bind_parameter_count ((int (*)(sqlite3_stmt *)) table[7])
    #define busy_timeout ((int (*)(sqlite3 *, int)) table[14])
    #define bind_text ((int (*)(sqlite3_stmt *, int, const char *, int, void *)) table[10])
    #define bind_pointer ((int (*)(sqlite3_stmt *, int, void *, const char *, void *)) table[219])
    #define column_blob ((const char *(*)(sqlite3_stmt *, int)) table[19])
    #define column_bytes ((int (*)(sqlite3_stmt *, int)) table[20])
    #define column_count ((int (*)(sqlite3_stmt *)) table[22])
    #define column_int64 ((int64_t (*)(sqlite3_stmt *, int)) table[29])
    #define column_type ((int (*)(sqlite3_stmt *, int)) table[38])
    #define errmsg ((const char *(*)(sqlite3 *)) table[53])
    #define extended_errcode ((int (*)(sqlite3 *)) table[166])
    #define finalize ((int (*)(sqlite3_stmt *)) table[57])
    #define prepare_v3 ((int (*)(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **)) table[217])
    #define reset ((int (*)(sqlite3_stmt *)) table[77])
    #define step ((int (*)(sqlite3_stmt *)) table[94])
    """
    ctypedef struct sqlite3
    ctypedef struct sqlite3_stmt
    void **table
    int bind_blob(sqlite3_stmt *, int, const void *, int, void *) nogil
    int bind_int64(sqlite3_stmt *, int, int64_t) nogil
    int bind_null(sqlite3_stmt *, int) nogil
    int bind_parameter_count(sqlite3_stmt *) nogil
    int bind_text(sqlite3_stmt *, int, const char *, int, void *) nogil
    int busy_timeout(sqlite3 *, int) nogil
    int bind_pointer(sqlite3_stmt *, int, void *, const char *, void *) nogil
    const char *column_blob(sqlite3_stmt *, int) nogil
    int column_bytes(sqlite3_stmt *, int) nogil
    int column_count(sqlite3_stmt *) nogil
    int64_t column_int64(sqlite3_stmt *, int) nogil
    int column_type(sqlite3_stmt *, int) nogil
    const char *errmsg(sqlite3 *) nogil
    int extended_errcode(sqlite3 *) nogil
    int finalize(sqlite3_stmt *) nogil
    int prepare_v3(sqlite3 *, const char *, int, unsigned, sqlite3_stmt **, const char **) nogil
    int reset(sqlite3_stmt *) nogil
    int step(sqlite3_stmt *) nogil

cdef extern from "<sys/file.h>":
    int LOCK_UN
    int flock(int, int) nogil

cdef extern from *:
    """
    #define new_of(kind) ((PyTypeObject *) (kind))->tp_alloc((PyTypeObject *) (kind), 0)
    """
    object new_of(object kind)

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef enum:  # SQLite's
    OK = 0
    BUSY = 5
    ROW = 100
    DONE = 101
    INTEGER = 1
    TEXT = 3
    NULL_VALUE = 5
    PERSISTENT = 1

cdef enum:  # ours
    NONE, NUMBER, STRING, BYTES

cdef enum:
    FEW_ROWS = 16
    MOST_INSERTS = 4
    LET_OTHERS_IN_EVERY = 64  # rows
    KEPT_TYPES = 16
    TYPE_BITS = 31
    MOST_FOUND = 10_000

cdef Slot ITEM_TYPES, ITEM_TAGS, ITEM_STREAM, ITEM_SUBJECT, ITEM_KEY
find_slot(&ITEM_TYPES, QueryItem, "types")
find_slot(&ITEM_TAGS, QueryItem, "tags")
find_slot(&ITEM_STREAM, QueryItem, "stream")
find_slot(&ITEM_SUBJECT, QueryItem, "subject")
find_slot(&ITEM_KEY, QueryItem, "key")

cdef Slot POSITION, TYPE, DATA, TAGS, STREAM, SUBJECT, ID, METADATA, RECORDED_AT
find_slot(&POSITION, SequencedEvent, "position")
find_slot(&TYPE, SequencedEvent, "type")
find_slot(&DATA, SequencedEvent, "data")
find_slot(&TAGS, SequencedEvent, "raw_tags")
find_slot(&STREAM, SequencedEvent, "stream")
find_slot(&SUBJECT, SequencedEvent, "subject")
find_slot(&ID, SequencedEvent, "raw_id")
find_slot(&METADATA, SequencedEvent, "raw_metadata")
find_slot(&RECORDED_AT, SequencedEvent, "raw_recorded_at")

cdef object Sequenced = SequencedEvent
cdef str SEEK = sql("seek")
cdef str EVENTS_AT = sql("events_at")


cdef struct Value:
    int kind
    int length
    int64_t number
    const char *text


cdef struct Blob:  # what carray takes: an iovec
    const void *start
    size_t length


cdef int read_value(object value, Value *into) except -1:
    cdef Py_ssize_t length
    if value is None:
        into.kind = NONE
    elif PyLong_Check(value):
        into.kind, into.number = NUMBER, PyLong_AsLongLong(value)
    elif PyUnicode_Check(value):
        into.kind, into.text = STRING, PyUnicode_AsUTF8AndSize(value, &length)
        into.length = <int>length
    elif PyBytes_Check(value):
        into.kind, into.text, into.length = BYTES, PyBytes_AS_STRING(value), <int>PyBytes_GET_SIZE(value)
    else:
        raise TypeError(f"SQLite has no such value: {type(value).__name__}")
    return 0


cdef int bind(sqlite3_stmt *statement, int place, Value *value) noexcept nogil:
    # Nothing is copied: whoever calls keeps the values until the statement is reset.
    if value.kind == NUMBER:
        return bind_int64(statement, place, value.number)
    if value.kind == STRING:
        return bind_text(statement, place, value.text, value.length, NULL)
    if value.kind == BYTES:
        return bind_blob(statement, place, value.text, value.length, NULL)
    return bind_null(statement, place)


cdef object text_of(sqlite3_stmt *statement, int column):
    if column_type(statement, column) == NULL_VALUE:
        return None
    # Text is asked for as bytes: SQLite would copy it to put a zero behind it.
    cdef const char *text = column_blob(statement, column)
    return PyUnicode_DecodeUTF8(text, column_bytes(statement, column), NULL)


cdef object blob_of(sqlite3_stmt *statement, int column):
    if column_type(statement, column) == NULL_VALUE:
        return None
    cdef const char *start = column_blob(statement, column)
    return PyBytes_FromStringAndSize(start, column_bytes(statement, column))


cdef object value_of(sqlite3_stmt *statement, int column):
    cdef int kind = column_type(statement, column)
    if kind == INTEGER:
        return PyLong_FromLongLong(column_int64(statement, column))
    if kind == TEXT:
        return text_of(statement, column)
    return blob_of(statement, column)


@cython.no_gc_clear
cdef class Statement:
    cdef object connection  # not to be closed before the statement is
    cdef sqlite3_stmt *statement
    cdef int parameters
    cdef bint has_blobs  # in its arrays, not numbers

    def __dealloc__(self):
        finalize(self.statement)


cdef class Cursor:
    """See `cursor.py`."""

    cdef object connection
    cdef sqlite3 *database
    cdef dict statements
    cdef list kept_types
    cdef int64_t recorded_at
    cdef object kept_time
    cdef bint is_patient

    def __cinit__(self, connection, is_patient):
        if table == NULL:
            connection.enable_load_extension(True)
            try:
                connection.load_extension(__file__, "strandline_learn_functions")
            finally:
                connection.enable_load_extension(False)
        self.connection = connection
        self.database = <sqlite3 *><uintptr_t>connection.sqlite3_pointer()
        self.statements = {}
        self.kept_types = []
        self.recorded_at, self.kept_time = 0, 0
        self.is_patient = is_patient

    def close(self):
        self.statements.clear()
        self.database = NULL

    cdef int failed(self) except -1:
        cdef int code = extended_errcode(self.database)
        error = apsw.exception_for(code)
        text = errmsg(self.database).decode("utf-8", "replace")
        told = type(error)(f"{type(error).__name__}: {text}")
        told.result, told.extendedresult = error.result, error.extendedresult
        raise told

    cdef Statement prepared(self, str text, object parameters):
        cdef Statement made
        found = self.statements.get(text)
        if found is not None:
            return <Statement>found
        if self.database == NULL:
            raise apsw.ConnectionClosedError("The connection has been closed")
        made = Statement.__new__(Statement)
        made.connection = self.connection
        made.parameters = len(parameters)
        encoded = with_array_lengths(text, parameters).encode()
        if prepare_v3(self.database, encoded, len(encoded), PERSISTENT, &made.statement, NULL) != OK:
            self.failed()
        arrays = [parameter for parameter in parameters if isinstance(parameter, list)]
        made.has_blobs = any([has_blobs(array) for array in arrays])
        if bind_parameter_count(made.statement) != made.parameters + len(arrays):
            raise apsw.BindingsError(f"the statement has other parameters than {parameters!r:.200}: {text}")
        self.statements[text] = made
        return made

    def begin(self, int patience):
        """Begin to write; wait so many milliseconds, without the interpreter's lock, if somebody else does."""
        cdef sqlite3_stmt *statement = self.prepared("begin immediate", ()).statement
        cdef int code
        try:
            busy_timeout(self.database, 0)
            code = step(statement)
            busy_timeout(self.database, patience)
            if code & 0xFF == BUSY:
                reset(statement)
                with nogil:
                    code = step(statement)
            if code != DONE:
                self.failed()
        finally:
            reset(statement)

    def undo(self):
        """End the transaction that is open."""
        self.ask("rollback", (), False, self.is_patient)

    def rows(self, str text, parameters=()):
        """The rows of a statement."""
        return self.ask(text, tuple(parameters), False, self.is_patient)

    def slow_rows(self, str text, parameters):
        """The rows of a statement that may take long."""
        return self.ask(text, tuple(parameters), False, True)

    def events(self, str text, parameters):
        """The events of rows with all columns, which are an event's fields in order."""
        return self.ask(text, tuple(parameters), True, self.is_patient)

    cdef list ask(self, str text, tuple parameters, bint are_events, bint is_patient):
        cdef Statement prepared = self.prepared(text, parameters)
        cdef list arrays = []  # to be kept until all rows are there
        self.bind_all(prepared, parameters, arrays)
        return self.answers(prepared.statement, are_events, is_patient)

    cdef list answers(self, sqlite3_stmt *statement, bint are_events, bint is_patient):
        """The rows of a statement that has its parameters, or their events."""
        cdef list found = []
        cdef int code, columns = column_count(statement)
        cdef Py_ssize_t count = 0
        try:
            while True:
                if is_patient and count % LET_OTHERS_IN_EVERY == 0:
                    with nogil:
                        code = step(statement)
                else:
                    code = step(statement)
                count += 1
                if code != ROW:
                    break
                found.append(self.event(statement) if are_events else row_of(statement, columns))
            if code != DONE:
                self.failed()
        finally:
            reset(statement)
        return found

    cdef object event(self, sqlite3_stmt *statement):
        # Those that every event has are not asked whether they are there.
        cdef const char *type = column_blob(statement, 1)
        cdef const char *data = column_blob(statement, 2)
        cdef const char *tags = column_blob(statement, 3)
        cdef const char *id = column_blob(statement, 6)
        cdef int64_t recorded_at = column_int64(statement, 8)
        if recorded_at != self.recorded_at:  # many are written at once
            self.recorded_at, self.kept_time = recorded_at, PyLong_FromLongLong(recorded_at)
        made = new_of(Sequenced)  # a call of the class would do the same: all its fields are slots
        put_slot(made, &POSITION, PyLong_FromLongLong(column_int64(statement, 0)))
        put_slot(made, &TYPE, self.type(type, column_bytes(statement, 1)))
        put_slot(made, &DATA, PyBytes_FromStringAndSize(data, column_bytes(statement, 2)))
        put_slot(made, &TAGS, PyUnicode_DecodeUTF8(tags, column_bytes(statement, 3), NULL))
        put_slot(made, &STREAM, text_of(statement, 4))
        put_slot(made, &SUBJECT, text_of(statement, 5))
        put_slot(made, &ID, PyBytes_FromStringAndSize(id, column_bytes(statement, 6)))
        put_slot(made, &METADATA, blob_of(statement, 7))
        put_slot(made, &RECORDED_AT, self.kept_time)
        return made

    cdef object type(self, const char *text, Py_ssize_t length):
        """One object for all events of a type, which are many."""
        cdef Py_ssize_t known
        for kept in self.kept_types:
            start = PyUnicode_AsUTF8AndSize(kept, &known)
            if known == length and memcmp(start, text, length) == 0:
                return kept
        name = PyUnicode_DecodeUTF8(text, length, NULL)
        if len(self.kept_types) == KEPT_TYPES:
            self.kept_types.pop()
        self.kept_types.insert(0, name)
        return name

    def find(
        self,
        tuple items,
        dict known,
        look_up,
        dict type_numbers,
        tuple segments,
        long long indexed_to,
        long long after,
        long long until,
        Py_ssize_t size,
    ):
        """The events of `(after, until]` that match one of the items, in order, if they are a page at most.

        None if the items are not as they usually are: a tag and some types, which are all known. See `search.py`.
        """
        cdef Numbers found = Numbers(min(size, MOST_FOUND))
        cdef PyObject *number
        cdef long long tag, first
        for item in items:
            tags = <tuple>get_slot(item, &ITEM_TAGS)
            if (
                len(tags) != 1
                or get_slot(item, &ITEM_STREAM) is not None
                or get_slot(item, &ITEM_SUBJECT) is not None
                or get_slot(item, &ITEM_KEY) is not None
            ):
                return None
            number = PyDict_GetItem(known, tags[0])
            found_number = look_up(tags[0]) if number == NULL else <object>number
            if found_number is None:
                continue  # no event has ever carried it
            tag = found_number
            number = PyDict_GetItem(type_numbers, get_slot(item, &ITEM_TYPES))
            if number == NULL:
                return None
            for type_ in <list>number:
                first = tag << TYPE_BITS | <long long>type_
                if after < indexed_to and not self.seek(first, after, min(until, indexed_to), found):
                    return None
                if not found.take_newer(segments, first, max(after, indexed_to), until):
                    return None
        return self.events_of(found)

    cdef bint seek(self, long long key, long long after, long long until, Numbers found) except -1:
        """Take what the file's index has under a tag and a type; whether there was room for it."""
        cdef sqlite3_stmt *statement = self.prepared(SEEK, (0, 0, 0, 0)).statement
        cdef int code
        bind_int64(statement, 1, key)
        bind_int64(statement, 2, after)
        bind_int64(statement, 3, until)
        bind_int64(statement, 4, found.size + 1)
        try:
            while True:
                code = step(statement)
                if code != ROW:
                    break
                if not found.take(column_int64(statement, 0)):
                    return False
            if code != DONE:
                self.failed()
        finally:
            reset(statement)
        return True

    cdef list events_of(self, Numbers positions):
        cdef sqlite3_stmt *statement
        if positions.count == 0:
            return []
        positions.sort()
        statement = self.prepared(EVENTS_AT, ([0],)).statement
        if bind_pointer(statement, 1, positions.values, b"carray", NULL) != OK:
            self.failed()
        bind_int64(statement, 2, positions.count)
        return self.answers(statement, True, self.is_patient)

    def insert(self, str text, list rows):
        """Run a statement with each of the rows as parameters."""
        if not rows:
            return
        cdef Rows made = Rows(self.prepared(text, rows[0]), rows)
        cdef Insert insert = made.insert
        cdef int code
        try:
            if insert.rows < FEW_ROWS:
                code = insert_all(&insert)
            else:
                with nogil:
                    code = insert_all(&insert)
            if code != DONE:
                self.failed()
        finally:
            reset(insert.statement)

    def commit(self, inserts, int lock_file):
        """Insert rows, commit, and let go of the lock on a file; False if the system did not let go of it."""
        cdef sqlite3_stmt *end = self.prepared("commit", ()).statement
        cdef list made = [Rows(self.prepared(text, rows[0]), rows) for text, rows in inserts if rows]
        cdef Insert[MOST_INSERTS] each
        cdef int count = len(made), index, code = DONE, unlocked = -1
        if count > MOST_INSERTS:
            raise ValueError(f"{count} inserts are more than {MOST_INSERTS}")
        for index in range(count):
            each[index] = (<Rows>made[index]).insert
        try:
            with nogil:
                for index in range(count):
                    code = insert_all(&each[index])
                    if code != DONE:
                        break
                if code == DONE:
                    code = step(end)
                if code == DONE:
                    unlocked = flock(lock_file, LOCK_UN)
            if code != DONE:
                self.failed()
            return unlocked == 0
        finally:
            for index in range(count):
                reset(each[index].statement)
            reset(end)

    cdef int bind_all(self, Statement prepared, tuple parameters, list arrays) except -1:
        cdef Value value
        cdef int place = 0, code
        if len(parameters) != prepared.parameters:
            raise apsw.BindingsError(f"{prepared.parameters} parameters are needed: {parameters!r:.200}")
        for parameter in parameters:
            place += 1
            if isinstance(parameter, list):
                if len(parameter) > 0 and has_blobs(parameter) != prepared.has_blobs:
                    raise apsw.BindingsError("an array has other values than when the statement was prepared")
                array = Array(parameter)
                arrays.append(array)
                code = bind_pointer(prepared.statement, place, (<Array>array).items, b"carray", NULL)
                if code == OK:
                    code = bind_int64(prepared.statement, prepared.parameters + len(arrays), len(parameter))
            else:
                read_value(parameter, &value)
                code = bind(prepared.statement, place, &value)
            if code != OK:
                self.failed()
        return 0


cdef class Numbers:
    """Positions, at most so many."""

    cdef int64_t *values
    cdef Py_ssize_t count, size

    def __cinit__(self, Py_ssize_t size):
        self.size = size
        self.values = <int64_t *>PyMem_Malloc(size * sizeof(int64_t))
        if self.values == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.values)

    cdef bint take(self, int64_t position) noexcept:
        if self.count == self.size:
            return False
        self.values[self.count] = position
        self.count += 1
        return True

    cdef bint take_newer(self, tuple segments, key, long long after, long long until) except -1:
        """Take what is in memory; whether there was room for it."""
        cdef PyObject *found
        cdef list positions
        cdef Py_ssize_t index
        cdef long long position
        if after >= until:
            return True
        for segment in segments:
            found = PyDict_GetItem(<dict>segment._positions, key)
            if found == NULL:
                continue
            positions = <list>found
            for index in range(len(positions) - 1, -1, -1):  # the newest are last, and few are wanted
                position = positions[index]
                if position <= after:
                    break
                if position <= until and not self.take(position):
                    return False
        return True

    cdef int sort(self) noexcept:
        """Sorted, and without those that several items found."""
        cdef Py_ssize_t index, kept = 0
        qsort(self.values, self.count, sizeof(int64_t), compare)
        for index in range(1, self.count):
            if self.values[index] != self.values[kept]:
                kept += 1
                self.values[kept] = self.values[index]
        self.count = kept + 1
        return 0


cdef int compare(const void *left, const void *right) noexcept nogil:
    cdef int64_t one = (<int64_t *>left)[0], other = (<int64_t *>right)[0]
    return (one > other) - (one < other)


cdef tuple row_of(sqlite3_stmt *statement, int columns):
    return tuple([value_of(statement, column) for column in range(columns)])


cdef struct Insert:
    sqlite3_stmt *statement
    Value *values
    Py_ssize_t rows
    int columns


cdef class Rows:
    """The parameters of a statement that is run several times, where SQLite finds them."""

    cdef Insert insert
    cdef Statement statement
    cdef list rows

    def __cinit__(self, Statement statement, list rows):
        cdef int columns = statement.parameters, column
        cdef Py_ssize_t count = len(rows), row
        cdef Value *values = <Value *>PyMem_Malloc(count * columns * sizeof(Value))
        if values == NULL:
            raise MemoryError
        self.statement, self.rows = statement, rows
        self.insert = Insert(statement.statement, values, count, columns)
        for row in range(count):
            parameters = <tuple?>rows[row]
            if len(parameters) != columns:
                raise apsw.BindingsError(f"{columns} parameters are needed: {parameters!r:.200}")
            for column in range(columns):
                read_value(parameters[column], &values[row * columns + column])

    def __dealloc__(self):
        PyMem_Free(self.insert.values)


cdef int insert_all(Insert *insert) noexcept nogil:
    cdef int code = DONE, column
    cdef Py_ssize_t row
    for row in range(insert.rows):
        for column in range(insert.columns):
            code = bind(insert.statement, column + 1, &insert.values[row * insert.columns + column])
            if code != OK:
                return code
        code = step(insert.statement)
        if code != DONE:
            return code
        reset(insert.statement)
    return code


cdef class Array:
    """Numbers or blobs where SQLite finds them."""

    cdef void *items
    cdef list values

    def __cinit__(self, list values):
        cdef Py_ssize_t count = len(values), index
        self.values = values
        self.items = PyMem_Malloc((count or 1) * sizeof(Blob))
        if self.items == NULL:
            raise MemoryError
        if has_blobs(values):
            for index in range(count):
                blob = <bytes?>values[index]
                (<Blob *>self.items)[index].start = PyBytes_AS_STRING(blob)
                (<Blob *>self.items)[index].length = PyBytes_GET_SIZE(blob)
        else:
            for index in range(count):
                (<int64_t *>self.items)[index] = values[index]

    def __dealloc__(self):
        PyMem_Free(self.items)


cdef bint has_blobs(list values):
    return len(values) > 0 and isinstance(values[0], bytes)


cdef str with_array_lengths(str text, object parameters):
    """`carray(?1)` is apsw's way to say it; SQLite's own has the length and the kind besides."""
    places = [place for place, value in enumerate(parameters, 1) if isinstance(value, list)]

    def with_length(match):
        place = int(match[1])
        kind = "struct iovec" if has_blobs(parameters[place - 1]) else "int64"
        return f"carray(?{place}, ?{len(parameters) + 1 + places.index(place)}, '{kind}')"

    return re.sub(r"carray\(\?(\d+)\)", with_length, text)
