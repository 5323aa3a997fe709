"""Attributes of `__slots__`, read and written where a class keeps them.

To look up a name in a class takes longer than everything else that is done with a value here. Objects of other
classes, subclasses too, are asked by name.
"""

cdef extern from *:
    """
    #include <structmember.h>

    typedef struct {
        PyTypeObject *owner;
        Py_ssize_t offset;
        PyObject *name;
    } Slot;

    static int find_slot(Slot *slot, PyObject *owner, PyObject *name) {
        PyObject *member = PyObject_GetAttr(owner, name);
        if (member == NULL) return -1;
        if (!PyType_Check(owner) || !Py_IS_TYPE(member, &PyMemberDescr_Type)
                || ((PyMemberDescrObject *) member)->d_member->type != T_OBJECT_EX) {
            PyErr_Format(PyExc_TypeError, "%R has no slot %R", owner, name);
            Py_DECREF(member);
            return -1;
        }
        Py_INCREF(owner);
        Py_INCREF(name);
        slot->offset = ((PyMemberDescrObject *) member)->d_member->offset;
        slot->owner = (PyTypeObject *) owner;
        slot->name = name;
        Py_DECREF(member);
        return 0;
    }

    static inline PyObject *get_slot(PyObject *object, Slot *slot) {
        if (Py_IS_TYPE(object, slot->owner)) {
            PyObject *value = *(PyObject **) ((char *) object + slot->offset);
            if (value != NULL) {
                Py_INCREF(value);
                return value;
            }
        }
        return PyObject_GetAttr(object, slot->name);
    }

    static inline int put_slot(PyObject *object, Slot *slot, PyObject *value) {
        if (!Py_IS_TYPE(object, slot->owner)) return PyObject_GenericSetAttr(object, slot->name, value);
        PyObject **place = (PyObject **) ((char *) object + slot->offset), *old = *place;
        Py_INCREF(value);
        *place = value;
        Py_XDECREF(old);
        return 0;
    }
    """
    ctypedef struct Slot:
        pass
    int find_slot(Slot *slot, object owner, object name) except -1
    object get_slot(object instance, Slot *slot)
    int put_slot(object instance, Slot *slot, object value) except -1
