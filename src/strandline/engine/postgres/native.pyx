# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Arrays in PostgreSQL's binary form: what `binary.py` does, in less time."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLong
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef enum:
    BIGINT = 20
    WITHOUT_ELEMENTS = 12  # bytes
    WITH_ELEMENTS = 20


cdef char *put_number(char *place, uint32_t number) noexcept:
    place[0], place[1], place[2], place[3] = <char>(number >> 24), <char>(number >> 16), <char>(number >> 8), <char>number
    return place + 4


cdef char *put_header(char *place, uint32_t element, uint32_t length) noexcept:
    if length == 0:
        return put_number(put_number(put_number(place, 0), 0), element)
    return put_number(put_number(put_number(put_number(put_number(place, 1), 1), element), length), 1)


def array(uint32_t element, values):
    """Text, bytes or None as an array; see `binary.py`."""
    cdef Py_ssize_t count = len(values), length, size = WITH_ELEMENTS + 4 * count
    cdef const char *text
    if count == 0:
        size = WITHOUT_ELEMENTS
    for value in values:
        if value is None:
            continue
        if PyBytes_Check(value):
            size += PyBytes_GET_SIZE(value)
        else:
            PyUnicode_AsUTF8AndSize(value, &length)
            size += length
    made = PyBytes_FromStringAndSize(NULL, size)
    cdef char *place = put_header(PyBytes_AS_STRING(made), element, <uint32_t>count)
    for value in values:
        if value is None:
            place = put_number(place, <uint32_t>-1)
            continue
        if PyBytes_Check(value):
            text, length = PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
        else:
            text = PyUnicode_AsUTF8AndSize(value, &length)
        place = put_number(place, <uint32_t>length)
        memcpy(place, text, length)
        place += length
    return made


def numbers(uint32_t element, values):
    """Numbers as an array of int or bigint; see `binary.py`."""
    cdef Py_ssize_t count = len(values)
    cdef int width = 8 if element == BIGINT else 4
    cdef int64_t number
    made = PyBytes_FromStringAndSize(NULL, WITH_ELEMENTS + (4 + width) * count if count else WITHOUT_ELEMENTS)
    cdef char *place = put_header(PyBytes_AS_STRING(made), element, <uint32_t>count)
    for value in values:
        number = PyLong_AsLongLong(value)
        place = put_number(place, width)
        if width == 8:
            place = put_number(place, <uint32_t>(number >> 32))
        elif number != <int32_t>number:
            raise OverflowError(f"{number} is too great for an int")
        place = put_number(place, <uint32_t>number)
    return made
