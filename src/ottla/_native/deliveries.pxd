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


cdef class Waiting:
    cdef object wait
    cdef object unlinger

    cdef object how_to_wait(self)
    cdef object how_to_unlinger(self)
    cdef int disconnect(self) except -1


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
    cdef list callbacks
    cdef Waiting waiting
    # A caller waits for a record of it: it should not linger.
    cdef bint urgent

    cdef bint is_completed(self) noexcept
    cdef int add_callback(self, tuple entry) except -1
    cdef list conclude(self, int64_t base_offset, int64_t log_append_time, object error)
    cdef int call_back(self, list entries, object batch) except -1
    cdef int move_to_halves(self, Outcome first, Outcome second, int32_t split_at) except -1
    cdef int move_to(self, list bound) except -1


cdef class Delivery:
    cdef Outcome outcome
    cdef int64_t created
    cdef int32_t at

    cdef int unlinger(self) except -1
    cdef int check(self) except -1
    cdef str where(self)


cdef Outcome new_outcome(object topic, int32_t partition, Waiting waiting)
cdef Delivery new_delivery(Outcome outcome, int32_t index, int64_t timestamp)
cdef Delivery failed_delivery(object topic, int32_t partition, int64_t timestamp, object error)
