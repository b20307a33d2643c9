# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Batches on their way out.

An `EncodedBatch` has its records; sealing it puts the header in front, compressed records behind it if wanted, and
the checksum. That may happen again with other producer fields, from the same records. Records are written by those
who make batches (`encode`, `accumulator`); nothing here waits, sends or looks at a clock.

A batch has one owner at a time, who seals, sends, splits and completes it. What others hold are `Delivery` objects,
and these refer to the batch's outcome (`deliveries`) rather than to the batch: the memory goes back to the pool as
soon as the owner lets go, also while receipts for its records are kept.

Invariant: bytes that a view shows do not change, a sealed batch that has to change meanwhile continues in
a copy.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp, memcpy

from ottla._native.deliveries cimport WHOLE_BATCH, Callbacks, new_delivery, new_outcome
from ottla._native.memory cimport take

cdef extern from "writer.h" nogil:
    enum:
        BATCH_OVERHEAD
    void writer_setup()
    uint32_t c_records_crc "records_crc" (const uint8_t *records, size_t size)
    void write_header(
        uint8_t *header, size_t size, uint32_t crc, int codec, const producer_t *producer, int32_t count,
        int64_t base_timestamp, int64_t max_timestamp,
    )
    int64_t record_timestamp(const uint8_t *data, size_t end, int64_t base_timestamp, int32_t index)
    void split_front(const open_batch *batch, open_batch *front)
    void split_back(const open_batch *batch, const open_batch *front, open_batch *back)

# The checksum of less than this is done before giving the GIL away and taking it back would pay (about 100 us).
cdef enum:
    LARGE = 1024 * 1024


# The collector does not clear it: the memory is accounted for while it dies, and cycles are broken at the outcome.
@cython.final
@cython.no_gc_clear
cdef class EncodedBatch:
    """The records of one partition that travel together. Made by `encode_columns` and `Accumulator.drain`.

    `memoryview(batch)` is the batch as it goes over the wire, once it is sealed.
    """

    def __cinit__(self):
        self.producer.id = self.producer.base_sequence = self.producer.epoch = -1

    def __init__(self):
        raise TypeError("batches are made by encode_columns() and Accumulator.drain()")

    def __dealloc__(self):
        self.settle()

    cdef void settle(self) noexcept:
        cdef int64_t charged = self.charged
        self.charged = 0
        if charged:
            self.budget.refund(charged)
            self.budget.refund_records(self.records.count)

    @property
    def topic(self):
        return self.outcome.topic

    @property
    def partition(self):
        return self.outcome.partition

    @property
    def count(self):
        """The number of records."""
        return self.records.count

    @property
    def base_timestamp(self):
        """The timestamp of the first record."""
        return self.records.base_timestamp

    @property
    def max_timestamp(self):
        return self.records.max_timestamp

    @property
    def size(self):
        """The size as last sealed, in bytes and with the header; without compression before that."""
        return self.packed_end if self.codec else self.records.end

    @property
    def raw_size(self):
        """The size without compression."""
        return self.records.end

    def __len__(self):
        return self.size

    @property
    def producer_id(self):
        return self.producer.id

    @property
    def producer_epoch(self):
        return self.producer.epoch

    @property
    def base_sequence(self):
        return self.producer.base_sequence

    @property
    def transactional(self):
        return self.producer.transactional != 0

    def set_producer(self, int64_t producer_id, int16_t epoch, int32_t base_sequence, bint transactional=False):
        """Who sends the batch and as which in their sequence; the batch has to be sealed (again) after that."""
        self.producer.id = producer_id
        self.producer.epoch = epoch
        self.producer.base_sequence = base_sequence
        self.producer.transactional = transactional
        self.sealed = False

    def seal(self, int codec=0, compress=None):
        """Writes header and checksum; `compress(records)` gives the records as the codec has them.

        Does nothing when nothing has changed. Compresses once, whatever else changes.
        """
        cdef uint8_t header[BATCH_OVERHEAD]
        cdef Memory target
        cdef size_t end
        cdef uint32_t crc
        if not 0 <= codec <= 7:
            raise ValueError(f"codec must be one of Kafka's, 0 to 4, not {codec}")
        if codec == 0:
            self.compute_crc()
            target, end, crc = self.memory, self.records.end, self.crc
        else:
            self.pack(codec, compress)
            target, end, crc = self.packed, self.packed_end, self.packed_crc
        write_header(
            header, end - BATCH_OVERHEAD, crc, codec, &self.producer, self.records.count,
            self.records.base_timestamp, self.records.max_timestamp,
        )
        with cython.critical_section(self):
            if memcmp(header, target.data, BATCH_OVERHEAD) != 0:
                if self.exports > 0:
                    target = self.copy_of(target, end)
                memcpy(target.data, header, BATCH_OVERHEAD)
            self.codec = codec
            self.sealed = True

    cdef int compute_crc(self) except -1:
        cdef size_t size = self.records.end - BATCH_OVERHEAD
        cdef const uint8_t *records = self.records.data + BATCH_OVERHEAD
        if self.has_crc:
            return 0
        if size > LARGE:
            with nogil:
                self.crc = c_records_crc(records, size)
        else:
            self.crc = c_records_crc(records, size)
        self.has_crc = True
        return 0

    cdef int pack(self, int codec, object compress) except -1:
        cdef Py_buffer view
        cdef Memory packed
        if self.packed is not None and self.packed_codec == codec:
            return 0
        if compress is None:
            raise TypeError(f"codec {codec} needs a function that compresses")
        compressed = compress(memoryview(self.memory)[BATCH_OVERHEAD:self.records.end].toreadonly())
        PyObject_GetBuffer(compressed, &view, PyBUF_SIMPLE)
        try:
            packed = take(BATCH_OVERHEAD + view.len)
            memcpy(packed.data + BATCH_OVERHEAD, view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        self.retire(self.packed)
        self.packed = packed
        self.packed_end = packed.size
        self.packed_codec = codec
        self.packed_crc = c_records_crc(packed.data + BATCH_OVERHEAD, packed.size - BATCH_OVERHEAD)
        return 0

    cdef Memory copy_of(self, Memory old, size_t end):
        cdef Memory copy = take(old.size)
        memcpy(copy.data, old.data, end)
        self.retire(old)
        if old is self.memory:
            self.memory = copy
            self.records.data = copy.data
        else:
            self.packed = copy
        return copy

    cdef int retire(self, Memory memory) except -1:
        """Keeps a block that is no longer the batch's as long as there are views of it."""
        if memory is not None and self.exports > 0:
            if self.retired is None:
                self.retired = []
            self.retired.append(memory)
        return 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        cdef Memory memory
        cdef size_t end
        if not self.sealed:
            raise BufferError("the batch is not sealed: seal() it first, and again after set_producer()")
        with cython.critical_section(self):
            memory = self.packed if self.codec else self.memory
            end = self.packed_end if self.codec else self.records.end
            PyBuffer_FillInfo(view, self, memory.data, end, 1, flags)
            self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        cdef list retired = None
        with cython.critical_section(self):
            self.exports -= 1
            if self.exports == 0:
                retired, self.retired = self.retired, None

    @property
    def rows(self):
        """The input row of each record, as a memoryview of ints, if `encode_columns` kept them."""
        if self.row_memory is None:
            raise AttributeError("row numbers were not kept: encode_columns(..., rows=True) keeps them")
        cdef Py_ssize_t first = <const uint8_t *> self.row_numbers - self.row_memory.data
        view = memoryview(self.row_memory)[first:first + self.records.count * sizeof(int32_t)]
        return view.cast("i").toreadonly()

    def row_of(self, int32_t index):
        """The input row of one record."""
        if self.row_memory is None:
            raise AttributeError("row numbers were not kept: encode_columns(..., rows=True) keeps them")
        if not 0 <= index < self.records.count:
            raise IndexError(f"record {index} of a batch of {self.records.count}")
        return self.row_numbers[index]

    def delivery(self, int32_t index):
        """The receipt for one record. It takes a walk through the records before it."""
        if not 0 <= index < self.records.count:
            raise IndexError(f"record {index} of a batch of {self.records.count}")
        return new_delivery(
            self.outcome, index,
            record_timestamp(self.records.data, self.records.end, self.records.base_timestamp, index),
        )

    @property
    def completed(self):
        return self.outcome.is_completed()

    def complete(self, int64_t base_offset=-1, int64_t log_append_time=-1, error=None):
        """What has become of the batch; calls its callbacks. False if that was known already.

        Gives the batch's share of the budget back. Callbacks run here, one after the other; what they raise goes
        to `sys.unraisablehook`, and what is to end the program to the loop that runs, or else to the caller.
        """
        cdef Callbacks callbacks = self.outcome.conclude(base_offset, log_append_time, error)
        if callbacks is None:
            return False
        self.settle()
        self.outcome.call_back(callbacks, self)
        return True

    def add_done_callback(self, function):
        """Calls `function(batch)` once it is completed, or at once. After a split: for each half, with that half."""
        if not self.outcome.add_callback(function, WHOLE_BATCH, 0):
            if not self.outcome.is_completed():
                raise RuntimeError("the batch was split: ask its halves")
            self.outcome.call_now(function, WHOLE_BATCH, 0, self)

    def split(self):
        """Two batches with half of the bytes each, for a broker that finds this one too large; it is of no use then.

        Receipts and callbacks follow their records. The halves are not sealed and have no producer yet.
        """
        cdef open_batch front, back
        cdef EncodedBatch first, second
        if self.records.count < 2:
            raise ValueError("a batch of one record cannot be split")
        front.data = back.data = NULL
        split_front(&self.records, &front)
        split_back(&self.records, &front, &back)
        first, second = self.part(front.end, 0), self.part(back.end, front.count)
        split_front(&self.records, &first.records)
        split_back(&self.records, &front, &second.records)
        self.outcome.move_to_halves(first.outcome, second.outcome, front.count)
        # The halves take over what was charged, and with it the room for one header more.
        first.budget = second.budget = self.budget
        first.charged = self.charged // 2
        second.charged = self.charged - first.charged
        self.charged = 0
        return [first, second]

    cdef EncodedBatch part(self, size_t size, int32_t first):
        cdef EncodedBatch part = new_batch(
            self.outcome.topic, self.outcome.partition, take(size), self.outcome.waiting
        )
        part.opened_at = self.opened_at
        if self.row_memory is not None:
            part.row_memory = self.row_memory
            part.row_numbers = self.row_numbers + first
        return part

    def __repr__(self):
        state = "sealed" if self.sealed else "not sealed"
        return (
            f"<EncodedBatch for {self.outcome.topic}-{self.outcome.partition}: {self.records.count} records, "
            f"{self.size} bytes, {state}>"
        )


cdef EncodedBatch new_batch(object topic, int32_t partition, Memory memory, Waiting waiting):
    cdef EncodedBatch batch = EncodedBatch.__new__(EncodedBatch)
    batch.outcome = new_outcome(topic, partition, waiting)
    batch.memory = memory
    open_batch_init(&batch.records, memory.data, memory.size)
    return batch


writer_setup()
