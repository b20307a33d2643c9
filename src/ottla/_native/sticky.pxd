# What the module that places records cimports: runs of records, and the choices that it can make without Python.

from libc.stdint cimport int64_t


cdef class Sticky:
    cdef object pick
    cdef int64_t enough
    cdef int64_t most
    cdef int64_t partition
    cdef int64_t bytes
    cdef object available

    cdef bint goes_on(self, object available, int64_t partitions) noexcept
    cdef int64_t choose_from(self, int64_t size, object load, object available, int64_t partitions) except -1
    cdef int review(self, object load, object available, int64_t partitions) except -1
    cdef bint ends_with_batch(self, int64_t partition) noexcept


cdef class StickyChoice:
    cdef readonly Sticky sticky


cdef class Murmur2Choice(StickyChoice):
    pass


cdef int64_t murmur2_choice(const void *data, size_t length, int64_t partitions) noexcept nogil
