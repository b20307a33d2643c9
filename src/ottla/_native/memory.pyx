# cython: language_level=3, freethreading_compatible=True
"""Pooled memory as Python objects.

A `Memory` has the buffer protocol; its block goes back to the pool when the object dies, and every view, record
or Arrow export that needs the block holds a reference to it. So nothing is used again too early, and no caller
has to say when.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint64_t

cdef extern from "pool.h" nogil:
    cdef struct pool_statistics_t "pool_statistics":
        uint64_t taken
        uint64_t reused
        size_t in_use
        size_t kept
    void *pool_take(size_t size, size_t *capacity)
    void pool_give(void *block, size_t capacity)
    void pool_keep_at_most(size_t bytes)
    void pool_poison(int on)
    void c_pool_statistics "pool_statistics" (pool_statistics_t *out)


cdef class Memory:
    """A block of pooled memory, writable; `Memory(size)`."""

    def __cinit__(self, size_t size):
        self.data = <unsigned char *> pool_take(size, &self.capacity)
        if self.data == NULL:
            raise MemoryError(f"no memory for a buffer of {size} bytes")
        self.size = size

    def __dealloc__(self):
        if self.data != NULL:
            pool_give(self.data, self.capacity)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 0, flags)


cdef Memory take(size_t size):
    return Memory(size)


cdef void *take_block(size_t size, size_t *capacity) noexcept nogil:
    return pool_take(size, capacity)


cdef void give_block(void *block, size_t capacity) noexcept nogil:
    pool_give(block, capacity)


def joined(memoryview first, memoryview second):
    """One view of both, where the second begins where the first ends in the same Memory; else None."""
    cdef Py_buffer one, two
    cdef Memory whole
    cdef Py_ssize_t start
    if not isinstance(first.obj, Memory) or first.obj is not second.obj:
        return None
    whole = first.obj
    PyObject_GetBuffer(first, &one, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(second, &two, PyBUF_SIMPLE)
        try:
            if <unsigned char *> one.buf + one.len != <unsigned char *> two.buf:
                return None
            start = <unsigned char *> one.buf - whole.data
            return memoryview(whole).toreadonly()[start : start + one.len + two.len]
        finally:
            PyBuffer_Release(&two)
    finally:
        PyBuffer_Release(&one)


def keep_at_most(size_t size):
    """How many bytes may wait to be used again; what is beyond is freed."""
    pool_keep_at_most(size)


def statistics():
    """Blocks taken and reused since the start, bytes in use and bytes waiting."""
    cdef pool_statistics_t now
    c_pool_statistics(&now)
    return {"taken": now.taken, "reused": now.reused, "in_use": now.in_use, "kept": now.kept}


def _poison(bint on):
    """For tests: overwrite what comes back, so that code that still reads it notices."""
    pool_poison(on)
