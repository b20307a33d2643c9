# What other modules of the core cimport: pooled memory.

cdef class Memory:
    cdef readonly size_t size
    cdef size_t capacity
    cdef unsigned char *data
    cdef Py_ssize_t shape[1]

cdef Memory take(size_t size)

# For what is no object: a block of the one pool, NULL without memory, and back.
cdef void *take_block(size_t size, size_t *capacity) noexcept nogil
cdef void give_block(void *block, size_t capacity) noexcept nogil
