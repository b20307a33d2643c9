# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""The way of a record into the buffers of its topic: which partition, and whether it may open a batch there.

Any thread may append. The usual partitioners (`sticky`) choose without Python code as long as a run goes on or a
record has a key, and the GIL keeps threads apart. Everything else, and every other partitioner, has the topic's lock:
it is held from the choice until the record is in, and code that comes back to it from inside, such as a finalizer,
passes.

Invariant: a record that would open a batch is offered to the partitioner a second time, and never a third.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT32_MAX, uint8_t
from libc.string cimport memcpy

from ottla._native.outgoing cimport bytes_t
from ottla._native.record_buffer cimport OPENS, check_size, native_milliseconds, record_size, timestamp_of
from ottla._native.sticky cimport Murmur2Choice, StickyChoice, murmur2_choice

from _thread import RLock

from ottla.errors import NoSuchPartitionError

cdef extern from "writer.h" nogil:
    uint8_t *write_zigzag(uint8_t *p, int64_t value)
    uint8_t *write_last_bytes(uint8_t *p, bytes_t bytes)

include "record_arguments.pxi"


@cython.final
cdef class TopicAppender:
    """Appends the records of one topic whose partitions are known.

    `load` says how the partitions are doing. How many there are and which have a leader is read from it here and in
    `update`, the rest of it whenever a partitioner needs it.
    """

    def __init__(self, Accumulator accumulator not None, str topic not None, partitioner, load):
        self.accumulator = accumulator
        self.settings = accumulator.settings
        self.topic = topic
        self.partitioner = partitioner
        self.lock = RLock()
        self.buffers = []
        self.recognise(partitioner)
        self.update(load)

    cdef int recognise(self, object partitioner) except -1:
        """Whether a partitioner chooses as the native ones do; one that overrides something chooses itself."""
        kind = type(partitioner)
        for native in (Murmur2Choice, StickyChoice):
            if (
                isinstance(partitioner, native)
                and kind.choose is native.choose
                and kind.on_new_batch is native.on_new_batch
            ):
                self.sticky = (<StickyChoice> partitioner).sticky
                self.by_key = native is Murmur2Choice
                return 0
        return 0

    def update(self, load):
        """Partitions were added, or leaders have changed."""
        cdef object available = load.available
        cdef int64_t partitions = load.partitions
        cdef list buffers = list(self.buffers)
        if not 1 <= partitions <= INT32_MAX:
            raise ValueError(f"topic {self.topic!r} must have at least one partition, not {partitions}")
        # All of them now: once the topic has been forgotten (`Accumulator.forget`), this would make others. And those
        # that a topic has no more stay, for a thread that has chosen one of them before.
        for partition in range(len(buffers), partitions):
            buffers.append(self.accumulator.find(self.topic, partition))
        with cython.critical_section(self):
            self.load = load
            self.available = available
            self.partition_count = partitions
            self.buffers = buffers

    @property
    def partitions(self):
        return self.partition_count

    def append(self, key, value, headers=None, partition=None, timestamp=None):
        """Appends one record, to the partition it names or to the one the partitioner chooses; gives its receipt.

        Keys and values are bytes-like or None, headers pairs of str and bytes-like or None, the timestamp ms.
        BufferFull: there is no room. NoSuchPartitionError: the topic has fewer, as far as is known.
        """
        return append_to(self, key, value, headers, partition, timestamp)

    cdef Delivery place(self, record *one, object key, object value, object partition, int how):
        cdef Delivery delivery = None
        # Before any choice: a record that can never be sent is no part of a run.
        check_size(self.settings, one)
        if partition is not None:
            return self.buffer_of(self.named(partition, self.partition_count)).put(one, how | OPENS)
        if self.by_key and one.key.length >= 0:
            return self.place_by_key(one, how)
        if self.sticky is not None:
            delivery = self.go_on(one, how)
        if delivery is None:
            delivery = self.deliberate(one, key, value, how)
        return delivery

    cdef int64_t named(self, object partition, int64_t partitions) except -1:
        cdef int overflow
        cdef long number
        # Compared as a number of C: as objects, it is one of the dearer steps of an append.
        if PyLong_CheckExact(partition):
            number = PyLong_AsLongAndOverflow(partition, &overflow)
            if not overflow and 0 <= number < partitions:
                return number
        if not isinstance(partition, int):
            raise TypeError(f"partition must be an int or None, not {type(partition).__name__}")
        if not 0 <= partition < partitions:
            raise NoSuchPartitionError(topic=self.topic, partition=partition, partitions=partitions)
        return partition

    cdef RecordBuffer buffer_of(self, int64_t partition):
        with cython.critical_section(self):
            return <RecordBuffer> self.buffers[partition]

    cdef Delivery place_by_key(self, record *one, int how):
        cdef int64_t partition = murmur2_choice(one.key.data, one.key.length, self.partition_count)
        cdef RecordBuffer buffer = self.buffer_of(partition)
        cdef Delivery delivery = buffer.put(one, how)
        if delivery is None:
            # There is no other choice, but a run of records without key ends with the batch.
            with cython.critical_section(self.sticky):
                self.sticky.ends_with_batch(partition)
            delivery = buffer.put(one, how | OPENS)
        return delivery

    cdef Delivery go_on(self, record *one, int how):
        """The receipt, if the record continues a run and needs no batch to be opened; else None."""
        cdef Sticky sticky = self.sticky
        cdef Delivery delivery
        cdef int64_t partition
        with cython.critical_section(sticky):
            if not sticky.goes_on(self.available, self.partition_count):
                return None
            partition = sticky.partition
        delivery = self.buffer_of(partition).put(one, how)
        if delivery is not None:
            with cython.critical_section(sticky):
                sticky.bytes += record_size(one)
        return delivery

    cdef Delivery deliberate(self, record *one, object key, object value, int how):
        cdef int64_t size = record_size(one)
        cdef int64_t partition
        cdef Delivery delivery
        with self.lock:
            partition = self.choose(key, value, size)
            delivery = self.buffer_of(partition).put(one, how)
            if delivery is None:
                if self.on_new_batch(partition):
                    partition = self.choose(key, value, size)
                delivery = self.buffer_of(partition).put(one, how | OPENS)
        return delivery

    cdef int64_t choose(self, object key, object value, int64_t size) except -1:
        cdef object load, available, chosen
        cdef int64_t partitions
        # The choice runs Python, during which the topic may shrink: it is judged by what it was made from.
        with cython.critical_section(self):
            load, available, partitions = self.load, self.available, self.partition_count
        if self.sticky is not None:
            chosen = self.sticky.choose_from(size, load, available, partitions)
        else:
            chosen = self.partitioner.choose(as_bytes(key), as_bytes(value), size, load)
        return self.named(chosen, partitions)

    cdef bint on_new_batch(self, int64_t partition) except? -1:
        if self.sticky is not None:
            return self.sticky.ends_with_batch(partition)
        return self.partitioner.on_new_batch(partition)


cdef inline Delivery append_to(
    TopicAppender topic, object key, object value, object headers, object partition, object timestamp
):
    cdef arguments taken
    begin_arguments(&taken)
    try:
        take_arguments(&taken, topic.settings, key, value, headers, timestamp)
        return topic.place(&taken.one, key, value, partition, 0)
    finally:
        release_arguments(&taken)


cdef object as_bytes(object given):
    """Partitioners hash what they are given, and not everything with bytes in it hashes as bytes do."""
    return given if given is None or PyBytes_CheckExact(given) else bytes(given)


cdef class ThreadProducer:
    """`produce()` of a client whose threads append: the usual way of a record, and no other code of Python on it.

    A client has in `_appenders` those of its topics, and in `_dirty` the buffers that the loop has not looked at. What
    is not usual is its own: `_produce` for a record that finds no appender or is refused, `_notify` behind one that
    leaves a buffer dirty.
    """

    cdef public object _appenders
    cdef public object _dirty

    def produce(self, topic, value=None, key=None, headers=None, partition=None, timestamp=None):
        """Hands a record over to be sent; blocks only where the buffer is full, for at most `max_block_ms`.

        What comes back is the receipt: `result()` waits for the record to be delivered.

            kafka.produce("orders", b"...", key=b"42", headers=[("trace", b"1")]).result(timeout=10).offset
        """
        cdef object appender, delivery
        try:
            appender = self._appenders[topic]
            if type(appender) is TopicAppender:
                delivery = append_to(<TopicAppender> appender, key, value, headers, partition, timestamp)
            else:
                delivery = appender.append(key, value, headers, partition, timestamp)
        except Exception:
            # Nothing was appended.
            return self._produce(topic, value, key, headers, partition, timestamp)
        if self._dirty:
            self._notify()
        return delivery
