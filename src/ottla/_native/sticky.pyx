# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Records without a key stay together: one partition for a run of them, so that batches fill (KIP-480, KIP-794).

Here is when a run ends. Which partition comes next is a `pick`, given from outside. It is compiled because it is called
for every record; the partitioners that are made of it are Python (`ottla.client.partitioners`).

Invariants: a run goes on only on a partition that exists, and one without a leader only while none has one. While
`goes_on` says so, no Python code runs.
"""

cimport cython

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t

cdef extern from "batch.h" nogil:
    enum:
        BATCH_OVERHEAD

cdef extern from "murmur2.h" nogil:
    int32_t murmur2(const void *data, size_t length)


cdef int64_t murmur2_choice(const void *data, size_t length, int64_t partitions) noexcept nogil:
    return (murmur2(data, length) & 0x7FFFFFFF) % partitions


@cython.final
cdef class Sticky:
    """One partition after another, each for a run of records; `pick(load, last)` gives the next, `last` is -1 at first.

    A run ends with a batch once it has `enough` bytes, the record that opens the next one included; at `most` bytes
    it ends anyway. Ends elsewhere would leave a batch behind that is sent nearly empty (KAFKA-14156).
    """

    def __init__(self, pick, *, int64_t enough, int64_t most):
        self.pick = pick
        self.enough = enough
        self.most = most
        self.partition = -1
        self.bytes = most

    def choose(self, int64_t size, load):
        return self.choose_from(size, load, load.available, load.partitions)

    def on_new_batch(self, int64_t partition):
        return self.ends_with_batch(partition)

    cdef bint goes_on(self, object available, int64_t partitions) noexcept:
        return self.bytes < self.most and available is self.available and self.partition < partitions

    cdef int64_t choose_from(self, int64_t size, object load, object available, int64_t partitions) except -1:
        if not self.goes_on(available, partitions):
            self.review(load, available, partitions)
        self.bytes += size
        return self.partition

    cdef int review(self, object load, object available, int64_t partitions) except -1:
        if (
            self.bytes >= self.most
            or self.partition >= partitions
            or (available and self.partition not in available)
        ):
            self.partition = self.pick(load, self.partition)
            # Kafka's client, too, counts the header of the batch that a run begins with.
            self.bytes = BATCH_OVERHEAD
        self.available = available
        return 0

    cdef bint ends_with_batch(self, int64_t partition) noexcept:
        if partition != self.partition or self.bytes < self.enough:
            return False
        self.bytes = self.most
        return True


cdef class StickyChoice:
    """Runs only: keys do not matter here. They do to classes that override `choose`."""

    def __init__(self, Sticky sticky not None):
        self.sticky = sticky

    def choose(self, key, value, int64_t size, load):
        return self.sticky.choose_from(size, load, load.available, load.partitions)

    def on_new_batch(self, int64_t partition):
        return self.sticky.ends_with_batch(partition)


cdef class Murmur2Choice(StickyChoice):
    """By the murmur2 of the key, as Kafka's own client; in runs for records without."""

    def choose(self, key, value, int64_t size, load):
        cdef Py_buffer view
        cdef int64_t partition
        if key is None:
            return self.sticky.choose_from(size, load, load.available, load.partitions)
        partition = load.partitions
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        partition = murmur2_choice(view.buf, view.len, partition)
        PyBuffer_Release(&view)
        return partition
