# What the modules that place records cimport: a record as bytes, and the buffer of a partition.

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from ottla._native.deliveries cimport Budget, Delivery, Waiting
from ottla._native.memory cimport Memory
from ottla._native.outgoing cimport EncodedBatch, bytes_t

cdef extern from "batch.h" nogil:
    enum:
        BATCH_OVERHEAD

cdef extern from "locks.h" nogil:
    ctypedef struct brief_lock:
        pass


cdef struct record:
    bytes_t key
    bytes_t value
    bytes_t headers
    int64_t timestamp


# How a record is appended.
cdef enum:
    # It may be the first of a batch.
    OPENS = 1
    # It was taken, counted and charged for before: neither a bound nor the end of appending keeps it out.
    MOVED = 2


# What comes of the attempt to append it.
cdef enum attempt:
    APPENDED
    NO_BATCH
    NO_ROOM
    NO_RECORDS
    RETIRED
    CLOSED

cdef struct result:
    PyObject *outcome
    int32_t index
    bint was_empty
    bint full
    size_t needed  # of bytes, when there is no batch or no room in it
    size_t had


cdef class Settings:
    cdef Budget budget
    cdef Waiting waiting
    cdef size_t batch_size
    cdef int64_t max_record_size
    cdef object clock
    cdef object monotonic
    cdef object wake
    cdef bint is_closed
    cdef object closed


cdef class RecordBuffer:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef Settings settings
    cdef brief_lock lock
    # All below belongs to the lock. Batches are moved, not dropped, under it. The collector sees them: what waits for
    # a batch may lead back to the owner of the buffer. The last one is borrowed from the queue that it is the end of.
    cdef EncodedBatch open
    cdef EncodedBatch first_full
    cdef PyObject *last_full
    cdef int32_t full_count
    cdef int64_t buffered_bytes
    cdef int64_t buffered_records
    cdef size_t usual_size
    cdef bint is_retired

    cdef Delivery encode(self, object key, object value, object headers, object timestamp, int how)
    cdef Delivery put(self, record *one, int how)
    cdef attempt attempt_append(self, record *one, int how, result *done) noexcept
    cdef attempt append_locked(self, record *one, int how, result *done) noexcept
    cdef void close_locked(self) noexcept
    cdef int provide(self, attempt said, int how, result *done) except -1
    cdef Memory charged_block(self, size_t wanted, size_t needed, size_t had, int how)
    cdef int add_batch(self, size_t needed, int how) except -1
    cdef int grow_batch(self, size_t needed, size_t had, int how) except -1
    cdef void wake(self, bint full) noexcept
    cdef EncodedBatch pop(self, bint force, int64_t room)
    cdef EncodedBatch pop_locked(self, bint force, int64_t room)
    cdef bint retire(self) noexcept
    cdef void restore(self) noexcept
    cdef void pass_lock(self) noexcept


# What a record takes in its batch, where it is the first one; and what a batch with this record only takes.
cdef size_t record_size(const record *one) noexcept nogil
cdef size_t size_alone(const record *one) noexcept nogil

cdef int check_open(Settings settings) except -1
cdef int check_exact_size(Settings settings, const record *one) except -1
cdef int64_t timestamp_of(Settings settings, object timestamp) except? -1
cdef double monotonic_now(Settings settings) except? -1
cdef object bytes_full(Budget budget, size_t needed, object where)
cdef object records_full(Budget budget, object where)
cdef object too_large(object where, int64_t size, int64_t most)
cdef object never_fits(object where, int64_t size, Budget budget)


# The steps of every append that are short enough to be written where they are taken.

cdef enum:
    # What a batch has beside the key, value and headers of its one record, at the most: its header and six numbers.
    MOST_OVERHEAD = BATCH_OVERHEAD + 6 * 10


cdef inline int check_size(Settings settings, const record *one) except -1:
    # The exact size only where it may matter.
    if one.key.length + one.value.length + one.headers.length + MOST_OVERHEAD > settings.max_record_size:
        check_exact_size(settings, one)
    return 0


cdef inline int64_t native_milliseconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    # Unsigned: what is never negative is divided without a look at its sign.
    return <int64_t> now.tv_sec * 1000 + <int64_t> (<uint32_t> now.tv_nsec // 1000000)
