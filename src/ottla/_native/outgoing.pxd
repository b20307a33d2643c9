# What the modules that make batches cimport: batches on their way out.

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from ottla._native.deliveries cimport Budget, Outcome, Waiting
from ottla._native.memory cimport Memory

cdef extern from "writer.h" nogil:
    struct bytes_t "bytes":
        const uint8_t *data
        int64_t length
    struct open_batch:
        uint8_t *data
        size_t end
        size_t capacity
        int64_t base_timestamp
        int64_t max_timestamp
        int32_t count
    struct producer_t "producer":
        int64_t id
        int32_t base_sequence
        int16_t epoch
        int transactional
    void open_batch_init(open_batch *batch, uint8_t *data, size_t capacity)


cdef class EncodedBatch:
    cdef open_batch records
    cdef Memory memory
    cdef Memory packed
    cdef size_t packed_end
    cdef uint32_t crc
    cdef uint32_t packed_crc
    cdef int packed_codec
    cdef bint has_crc
    cdef readonly bint sealed
    cdef readonly int codec
    cdef producer_t producer
    cdef int exports
    cdef list retired
    cdef Memory row_memory
    cdef const int32_t *row_numbers
    cdef Budget budget
    cdef int64_t charged
    cdef Outcome outcome
    cdef readonly double opened_at
    # Hops on the way, for the sink to set, on the clock of `opened_at`.
    cdef public double sealed_at
    cdef public double written_at
    cdef public double acknowledged_at
    # The queue that the batch is in links to the next one by it.
    cdef EncodedBatch next

    cdef int compute_crc(self) except -1
    cdef int pack(self, int codec, object compress) except -1
    cdef Memory copy_of(self, Memory old, size_t end)
    cdef int retire(self, Memory memory) except -1
    cdef void settle(self) noexcept
    cdef EncodedBatch part(self, size_t size, int32_t first)


cdef EncodedBatch new_batch(object topic, int32_t partition, Memory memory, Waiting waiting)
