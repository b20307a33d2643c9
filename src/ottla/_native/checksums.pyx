# cython: language_level=3, freethreading_compatible=True
"""The compiled core: what runs once per record or per batch, and would be the bottleneck in Python.

Here are the borders between Python objects and C: arguments are checked, buffers taken and given back, the GIL
released where that pays. The loops themselves are plain C in the files next to this one.

Invariants: a buffer that was taken is released on every path, and no C function is reached with bytes that
Python has not pinned.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint32_t

cdef extern from "crc32c.h" nogil:
    void crc32c_setup()
    const char *crc32c_implementation()
    uint32_t c_crc32c "crc32c" (uint32_t value, const void *data, size_t length)
    uint32_t c_crc32c_software "crc32c_software" (uint32_t value, const void *data, size_t length)

cdef extern from "murmur2.h" nogil:
    int32_t c_murmur2 "murmur2" (const void *data, size_t length)

ctypedef uint32_t (*checksum)(uint32_t, const void *, size_t) noexcept nogil

# A thread that gives the GIL away may wait a whole switch interval (5 ms) to get it back, so it is kept for
# whatever is done within about 100 us. The slowest loop here, at under 2 GB/s, gets this far in that time.
cdef enum:
    LARGE = 128 * 1024


cdef int take_buffer(object data, Py_buffer *view) except -1:
    # PyObject_GetBuffer has its own TypeError, but that does not say which argument it is about.
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"data must be a bytes-like object, not {type(data).__name__}")
    PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    return 0


cdef uint32_t checksum_argument(object value) except? 0:
    if not isinstance(value, int):
        raise TypeError(f"value must be an int, not {type(value).__name__}")
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"value must be a checksum of 32 bits, not {value}")
    return value


cdef object run_checksum(checksum function, object data, object value):
    cdef Py_buffer view
    cdef uint32_t crc = checksum_argument(value)
    take_buffer(data, &view)
    try:
        if view.len > LARGE:
            with nogil:
                crc = function(crc, view.buf, view.len)
        else:
            crc = function(crc, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return crc


def crc32c(data, value=0):
    """The CRC32C of `data`; with `value`, the checksum of what came before, of both together."""
    return run_checksum(c_crc32c, data, value)


def _crc32c_software(data, value=0):
    """`crc32c` without the processor's help; for tests, which compare the two."""
    return run_checksum(c_crc32c_software, data, value)


def _crc32c_implementation():
    """What `crc32c` runs on: "sse4.2", "armv8" or "software"."""
    return crc32c_implementation().decode()


def murmur2(data):
    """Kafka's hash of a record key, signed as in Java.

    The partition of a key is `(murmur2(key) & 0x7fffffff) % partitions`.
    """
    cdef Py_buffer view
    cdef int32_t hash
    take_buffer(data, &view)
    try:
        if view.len > LARGE:
            with nogil:
                hash = c_murmur2(view.buf, view.len)
        else:
            hash = c_murmur2(view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return hash


crc32c_setup()
