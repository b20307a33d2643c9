# What other modules of the core cimport: pooled memory.

cdef class Memory:
    cdef readonly size_t size
    cdef size_t capacity
    cdef unsigned char *data
    cdef Py_ssize_t shape[1]

cdef Memory take(size_t size)
