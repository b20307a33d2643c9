# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Structs of numbers, many of them in a row: the partitions of a Metadata response.

Which structs these are is said in `ottla.wire.runs`: numbers and ids, then arrays of numbers, and nothing else. Here
is the usual case of an element: each length takes one byte, nothing is tagged, and all of it is there. The first
element that is otherwise is left to the decoder of its message, which knows what to say of it, too.

Invariants: nothing behind `end` is read, and no list is made whose numbers are not there.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "batch.h" nogil:
    uint16_t load16(const uint8_t *p)
    uint32_t load32(const uint8_t *p)
    uint64_t load64(const uint8_t *p)

cdef extern from *:
    """
    #include <structmember.h>

    /* Where the objects of a class have this slot; -1 if it is none. */
    static Py_ssize_t slot_offset(PyObject *descriptor)
    {
        if (!Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
            return -1;
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }

    /* As object.__new__, with empty slots. */
    static PyObject *new_object(PyObject *made)
    {
        PyTypeObject *type = (PyTypeObject *)made;
        return type->tp_alloc(type, 0);
    }

    /* The slot of a new object, which is empty and which no other thread knows; takes the reference. */
    static inline void fill_slot(PyObject *object, Py_ssize_t offset, PyObject *value)
    {
        *(PyObject **)((char *)object + offset) = value;
    }
    """
    Py_ssize_t slot_offset(object descriptor)
    object new_object(object made)
    void fill_slot(object object, Py_ssize_t offset, PyObject *value)
    void PyObject_GC_UnTrack(object tracked)

cdef enum:
    ID_SIZE = 16
    # From here on, a length takes more than one byte.
    LONG_LENGTH = 0x80

cdef struct field_t:
    char code
    bint is_array
    Py_ssize_t size
    Py_ssize_t slot

cdef dict SIZES = {"?": 1, "b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8, "16s": ID_SIZE}


@cython.final
cdef class StructRun:
    """Decodes neighbours of one struct: `made` is its class, `fields` are its attributes as the wire has them.

    Each is (attribute, code, is_array), the code as the module `struct` spells it. `defaults` are (attribute, value) of
    what is not on the wire; `as_id` makes an id of 16 bytes.
    """

    cdef object made
    cdef object as_id
    cdef list defaults
    cdef Py_ssize_t smallest
    cdef Py_ssize_t count
    cdef field_t *fields

    def __init__(self, type made not None, fields, defaults, as_id):
        cdef Py_ssize_t index = 0
        if self.fields != NULL:
            raise TypeError("a run is made once")
        self.made = made
        self.as_id = as_id
        self.defaults = [(slot_of(made, attribute), value) for attribute, value in defaults]
        fields = list(fields)
        self.fields = <field_t *> PyMem_Malloc(max(1, len(fields)) * sizeof(field_t))
        if self.fields == NULL:
            raise MemoryError()
        self.smallest = 1  # the number of tagged fields
        for attribute, code, is_array in fields:
            if code == "16s" and is_array:
                raise ValueError("an array of ids is no array of numbers")
            self.fields[index].size = SIZES[code]
            self.fields[index].code = <char> ord(code[-1])
            self.fields[index].is_array = is_array
            self.fields[index].slot = slot_of(made, attribute)
            self.smallest += 1 if is_array else SIZES[code]
            index += 1
        self.count = index

    def __dealloc__(self):
        PyMem_Free(self.fields)

    def decode(self, buf, Py_ssize_t pos, Py_ssize_t end, list items not None, Py_ssize_t left):
        """Appends up to `left` elements to `items`; how many they were, and the position behind them."""
        cdef Py_buffer view
        cdef Py_ssize_t done = 0, size
        PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
        try:
            end = min(end, view.len)
            if pos < 0:
                raise ValueError(f"pos must be from 0 on, not {pos}")
            while done < left:
                size = self.size_of(<const uint8_t *> view.buf, pos, end)
                if size == 0:
                    break
                items.append(self.element(<const uint8_t *> view.buf + pos))
                pos += size
                done += 1
        finally:
            PyBuffer_Release(&view)
        return done, pos

    cdef Py_ssize_t size_of(self, const uint8_t *data, Py_ssize_t pos, Py_ssize_t end) noexcept:
        """Of the element at `pos`; 0 if it is not a usual one, or not all there."""
        cdef Py_ssize_t at = pos, index
        cdef field_t *field
        if end - pos < self.smallest:
            return 0
        for index in range(self.count):
            field = &self.fields[index]
            if not field.is_array:
                at += field.size
                continue
            # One more than the length, as compact arrays have it; 0 stands for null.
            if at >= end or data[at] == 0 or data[at] >= LONG_LENGTH:
                return 0
            at += 1 + (data[at] - 1) * field.size
        if at >= end or data[at] != 0:
            return 0
        return at + 1 - pos

    cdef object element(self, const uint8_t *p):
        cdef object item = new_object(self.made)
        cdef Py_ssize_t index, count
        cdef field_t *field
        cdef object value
        for index in range(self.count):
            field = &self.fields[index]
            if field.is_array:
                count = p[0] - 1
                value = numbers(field, p + 1, count)
                p += 1 + count * field.size
            else:
                value = self.id_at(p) if field.code == b"s" else number(field.code, p)
                p += field.size
            fill(item, field.slot, value)
        for slot, value in self.defaults:
            fill(item, slot, value)
        return item

    cdef object id_at(self, const uint8_t *p):
        return self.as_id(PyBytes_FromStringAndSize(<const char *> p, ID_SIZE))


cdef Py_ssize_t slot_of(object made, object attribute) except -1:
    cdef Py_ssize_t offset = slot_offset(getattr(made, attribute))
    if offset < 0:
        raise TypeError(f"{attribute} is no slot of {made.__name__}")
    return offset


cdef inline void fill(object item, Py_ssize_t slot, object value) noexcept:
    Py_INCREF(value)
    fill_slot(item, slot, <PyObject *> value)


cdef list numbers(const field_t *field, const uint8_t *p, Py_ssize_t count):
    cdef list found = PyList_New(count)
    cdef Py_ssize_t index
    cdef object value
    for index in range(count):
        value = number(field.code, p + index * field.size)
        Py_INCREF(value)
        PyList_SET_ITEM(found, index, value)
    # Numbers lead nowhere, and such lists are most of what the garbage collector would find in a large message.
    PyObject_GC_UnTrack(found)
    return found


cdef inline object number(char code, const uint8_t *p):
    cdef uint64_t bits
    cdef double real
    if code == b"i":
        return <int32_t> load32(p)
    if code == b"h":
        return <int16_t> load16(p)
    if code == b"q":
        return <int64_t> load64(p)
    if code == b"b":
        return <int8_t> p[0]
    if code == b"H":
        return load16(p)
    if code == b"?":
        return p[0] != 0
    bits = load64(p)
    memcpy(&real, &bits, sizeof(real))
    return real
