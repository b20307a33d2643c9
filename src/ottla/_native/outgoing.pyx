# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Batches on their way out, and what becomes of their records.

An `EncodedBatch` has its records; sealing it puts the header in front, compressed records behind it if wanted, and
the checksum. That may happen again with other producer fields, from the same records. Records are written by those
who make batches (`encode`, `accumulator`); nothing here waits, sends or looks at a clock.

A batch has one owner at a time, who seals, sends and completes it. What others hold are `Delivery` objects, and
these refer to the batch's outcome rather than to the batch: the memory goes back to the pool as soon as the owner
lets go, whoever still holds the receipt for a record.

Invariants: bytes that somebody has a view of do not change, a sealed batch that has to change meanwhile continues
in a copy; and an outcome is set once, the first one counts.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp, memcpy

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

cdef extern from *:
    """
    #define atomic_add(number, what) __atomic_add_fetch(number, what, __ATOMIC_RELAXED)
    #define atomic_load(number) __atomic_load_n(number, __ATOMIC_ACQUIRE)
    #define atomic_store(number, what) __atomic_store_n(number, what, __ATOMIC_RELEASE)

    static inline int atomic_add_within(int64_t *number, int64_t what, int64_t most)
    {
        int64_t now = __atomic_load_n(number, __ATOMIC_RELAXED);
        do {
            if (now + what > most)
                return 0;
        } while (!__atomic_compare_exchange_n(number, &now, now + what, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
        return 1;
    }
    """
    bint atomic_add_within(int64_t *number, int64_t what, int64_t most) nogil
    int64_t atomic_add(int64_t *number, int64_t what) nogil
    int atomic_load(int *number) nogil
    int64_t atomic_load64 "atomic_load" (int64_t *number) nogil
    void atomic_store(int *number, int what) nogil

# The checksum of less than this is done before giving the GIL away and taking it back would pay (about 100 us).
cdef enum:
    LARGE = 1024 * 1024


@cython.final
@cython.no_gc
cdef class Budget:
    """How many bytes of memory may be in use at a time, shared by all who charge it."""

    def __cinit__(self, int64_t most):
        self.most = most

    @property
    def used(self):
        return atomic_load64(&self.used_bytes)

    cdef bint charge(self, int64_t size) noexcept:
        return atomic_add_within(&self.used_bytes, size, self.most)

    cdef void refund(self, int64_t size) noexcept:
        atomic_add(&self.used_bytes, -size)


@cython.final
cdef class Outcome:
    """What has become of the records of one batch. Not made by callers."""

    def __cinit__(self):
        self.base_offset = -1
        self.log_append_time = -1


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Delivery:
    """The receipt for one record: whether it has been delivered, and where it is.

    Without garbage collection, since there may be millions of them: callbacks are kept by the outcome, without
    the receipt, and go when it is set.
    """

    def __init__(self):
        raise TypeError("receipts are made by append() and EncodedBatch.delivery()")

    @property
    def topic(self):
        return self.outcome.topic

    @property
    def partition(self):
        return self.outcome.partition

    def done(self):
        """Whether the record has been delivered, or has failed for good."""
        return atomic_load(&self.outcome.completed) != 0

    @property
    def offset(self):
        """The record's offset; -1 as long as it is unknown, which without acknowledgements it stays."""
        if not atomic_load(&self.outcome.completed) or self.outcome.base_offset < 0:
            return -1
        return self.outcome.base_offset + self.index

    @property
    def timestamp(self):
        """The record's timestamp in ms: the broker's if the topic has it so, else the one it was given."""
        if atomic_load(&self.outcome.completed) and self.outcome.log_append_time >= 0:
            return self.outcome.log_append_time
        return self.created

    @property
    def error(self):
        """Why the record has not been delivered; None if it has, or if that is still open."""
        return self.outcome.error if atomic_load(&self.outcome.completed) else None

    def add_done_callback(self, function):
        """Calls `function(delivery)` once the outcome is known: at once, or in the thread that learns of it."""
        # Made before the check: making a tuple may run the garbage collector, and with it anything.
        cdef tuple entry = (self.index, self.created, function)
        cdef list callbacks = []
        cdef Outcome outcome = self.outcome
        cdef bint completed
        with cython.critical_section(outcome):
            completed = atomic_load(&outcome.completed) != 0
            if not completed:
                if outcome.callbacks is None:
                    outcome.callbacks = callbacks
                outcome.callbacks.append(entry)
        if completed:
            call_back(outcome, entry)

    def __repr__(self):
        where = f"{self.outcome.topic}-{self.outcome.partition}"
        if not self.done():
            return f"<Delivery to {where}: under way>"
        if self.outcome.error is not None:
            return f"<Delivery to {where}: {self.outcome.error!r}>"
        return f"<Delivery to {where}: offset {self.offset}>"


cdef Delivery new_delivery(Outcome outcome, int32_t index, int64_t timestamp):
    cdef Delivery delivery = Delivery.__new__(Delivery)
    delivery.outcome = outcome
    delivery.index = index
    delivery.created = timestamp
    return delivery


cdef void call_back(Outcome outcome, tuple entry) noexcept:
    # One callback that raises must not keep the next from being called, nor disturb whoever learnt the outcome:
    # without a way to pass errors on, they go to sys.unraisablehook.
    entry[2](new_delivery(outcome, entry[0], entry[1]))


# Cleared by nobody but itself: the memory is accounted for while it dies, and cycles are broken at the outcome.
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
        """Keeps a block that is no longer the batch's until nobody has a view any more."""
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
        """The input row of each record, as a memoryview of ints, if `encode_columns` was asked for them."""
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
        return atomic_load(&self.outcome.completed) != 0

    def complete(self, int64_t base_offset=-1, int64_t log_append_time=-1, error=None):
        """What has become of the batch; calls who asked to be told. False if that was known already.

        Gives the batch's share of the budget back. Callbacks run here, one after the other; what they raise goes
        to `sys.unraisablehook`.
        """
        cdef Outcome outcome = self.outcome
        cdef list callbacks = None
        with cython.critical_section(outcome):
            if atomic_load(&outcome.completed):
                return False
            outcome.base_offset = -1 if error is not None else base_offset
            outcome.log_append_time = log_append_time
            outcome.error = error
            atomic_store(&outcome.completed, 1)
            callbacks, outcome.callbacks = outcome.callbacks, None
        self.settle()
        if callbacks is not None:
            for entry in callbacks:
                call_back(outcome, entry)
        return True

    def __repr__(self):
        state = "sealed" if self.sealed else "not sealed"
        return (
            f"<EncodedBatch for {self.outcome.topic}-{self.outcome.partition}: {self.records.count} records, "
            f"{self.size} bytes, {state}>"
        )


cdef EncodedBatch new_batch(object topic, int32_t partition, Memory memory):
    cdef EncodedBatch batch = EncodedBatch.__new__(EncodedBatch)
    batch.outcome = Outcome.__new__(Outcome)
    batch.outcome.topic = topic
    batch.outcome.partition = partition
    batch.memory = memory
    open_batch_init(&batch.records, memory.data, memory.size)
    return batch


writer_setup()
