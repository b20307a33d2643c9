# What the module that holds records cimports: the way into the buffers of one topic.

from libc.stdint cimport int32_t, int64_t

from ottla._native.accumulator cimport Accumulator
from ottla._native.deliveries cimport Delivery
from ottla._native.record_buffer cimport RecordBuffer, Settings, record
from ottla._native.sticky cimport Sticky


cdef class TopicAppender:
    cdef readonly str topic
    cdef Accumulator accumulator
    cdef Settings settings
    cdef object partitioner
    cdef Sticky sticky
    cdef bint by_key
    cdef object lock
    # The topic, as of the last `update`.
    cdef object load
    cdef object available
    cdef int64_t partition_count
    cdef list buffers

    cdef int recognise(self, object partitioner) except -1
    cdef Delivery place(self, record *one, object key, object value, object partition, int how)
    cdef int64_t named(self, object partition, int64_t partitions) except -1
    cdef RecordBuffer buffer_of(self, int64_t partition)
    cdef Delivery place_by_key(self, record *one, int how)
    cdef Delivery go_on(self, record *one, int how)
    cdef Delivery deliberate(self, record *one, object key, object value, int how)
    cdef int64_t choose(self, object key, object value, int64_t size) except -1
    cdef bint on_new_batch(self, int64_t partition) except? -1
