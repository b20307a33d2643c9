# What the modules that make batches cimport: the budget they charge, and what becomes of their records.

from libc.stdint cimport int32_t, int64_t


cdef class Budget:
    cdef readonly int64_t most
    cdef readonly int64_t most_records
    cdef int64_t used_bytes
    cdef int64_t used_records

    cdef bint charge(self, int64_t size) noexcept
    cdef void charge_anyway(self, int64_t size) noexcept
    cdef void refund(self, int64_t size) noexcept
    cdef bint charge_records(self, int64_t count) noexcept
    cdef void refund_records(self, int64_t count) noexcept


cdef extern from "locks.h" nogil:
    bint add_within(int64_t *number, int64_t what, int64_t most)
    void add_to(int64_t *number, int64_t what)


# One record, at every append: written where it is charged.
cdef inline bint charge_record(Budget budget) noexcept:
    return add_within(&budget.used_records, 1, budget.most_records)


cdef class Waiting:
    cdef object wait
    cdef object unlinger

    cdef object how_to_wait(self)
    cdef object how_to_unlinger(self)
    cdef int disconnect(self) except -1


cdef enum:
    # The index of a callback for a batch as a whole.
    WHOLE_BATCH = -1


cdef struct called_for:
    int64_t created
    int32_t index


cdef class Callbacks:
    cdef list functions
    cdef called_for *records
    cdef Py_ssize_t room

    cdef int add(self, object function, int32_t index, int64_t created) except -1


cdef class Outcome:
    cdef object topic
    cdef int32_t partition
    cdef int completed
    # Once this is set, the records are elsewhere: those of a batch that was split in the halves, first and second,
    # and those that were held where they went then.
    cdef int moved
    cdef int32_t split_at
    cdef Outcome first
    cdef Outcome second
    cdef list bound
    cdef int64_t base_offset
    cdef int64_t log_append_time
    cdef object error
    cdef Callbacks callbacks
    cdef Waiting waiting
    # What receipts count their timestamps from: the one of the first that was made. Those too far from it are in a
    # dict by their index.
    cdef int64_t first_created
    cdef dict far_created
    # A caller waits for a record of it: it should not linger.
    cdef bint urgent

    cdef bint is_completed(self) noexcept
    cdef int add_callback(self, object function, int32_t index, int64_t created) except -1
    cdef Callbacks conclude(self, int64_t base_offset, int64_t log_append_time, object error)
    cdef int call_back(self, Callbacks callbacks, object batch) except -1
    cdef int call_now(self, object function, int32_t index, int64_t created, object batch) except -1
    cdef int move_to_halves(self, Outcome first, Outcome second, int32_t split_at) except -1
    cdef int move_to(self, list bound) except -1
    cdef int32_t keep_created(self, int32_t index, int64_t timestamp) except? -1


# 32 bytes, and without methods of C, which would take 8 more: there may be millions of them.
cdef class Delivery:
    cdef Outcome outcome
    cdef int32_t at
    cdef int32_t since_first


cdef Outcome new_outcome(object topic, int32_t partition, Waiting waiting)
cdef Delivery new_delivery(Outcome outcome, int32_t index, int64_t timestamp)
cdef Delivery failed_delivery(object topic, int32_t partition, int64_t timestamp, object error)
