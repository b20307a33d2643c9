# What the modules that place records cimport: the buffers of all partitions.

from cpython.object cimport PyObject

from ottla._native.record_buffer cimport RecordBuffer, Settings

cdef enum:
    RECENT = 16

cdef struct recent_buffer:
    PyObject *topic
    PyObject *buffer
    long partition


cdef class Accumulator:
    cdef Settings settings
    cdef dict topics
    cdef recent_buffer recent[RECENT]

    cdef RecordBuffer find(self, object topic, object partition)
    cdef RecordBuffer look_up(self, object topic, object partition)
    cdef void remember(self, RecordBuffer buffer, object topic) noexcept
    cdef RecordBuffer add(self, object topic, object partition)
