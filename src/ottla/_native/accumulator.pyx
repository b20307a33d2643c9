# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Records that wait to be sent: encoded as they are appended, one buffer per partition.

Any thread may append. What leaves are whole batches, in the order of their records, to whoever drains. Nothing here
waits: when the memory is used up, `append` raises, and who sends is told through `wake` when there is something new
to do. Clocks are injected; the native ones are the default.

Each buffer has one lock, held for the writing of one record or the moving of one batch. While it is held nothing is
called or allocated that could run Python code, not even the garbage collector: a batch or a larger block is made
beforehand, then put in place under the lock if it is still wanted.

Invariants: a batch is at most `batch_size` bytes unless it has one record only; it is never empty when it leaves; and
what all batches take, until they are completed or dropped, is at most `max_bytes`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec

from ottla._native.memory cimport Memory, take
from ottla._native.outgoing cimport (
    Budget, Delivery, EncodedBatch, Outcome, bytes_t, new_batch, new_delivery, open_batch,
)

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *, const void *)
    int pthread_mutex_destroy(pthread_mutex_t *)
    int pthread_mutex_lock(pthread_mutex_t *)
    int pthread_mutex_unlock(pthread_mutex_t *)

cdef extern from "writer.h" nogil:
    enum:
        BATCH_OVERHEAD
    size_t number_size(int64_t value)
    size_t bytes_size(int64_t length)
    uint8_t *write_zigzag(uint8_t *p, int64_t value)
    uint8_t *write_last_bytes(uint8_t *p, bytes_t bytes)
    size_t record_body_size(int64_t delta, int32_t index, int64_t key, int64_t value, size_t headers)
    size_t open_batch_body_size(const open_batch *, int64_t timestamp, int64_t key, int64_t value, size_t headers)
    void open_batch_append(
        open_batch *, size_t body, int64_t timestamp, bytes_t key, bytes_t value, bytes_t headers
    )

cdef enum:
    # The first block of a batch; it grows as it fills, so that thousands of idle partitions take little memory.
    SMALLEST_BLOCK = 4096
    # What a batch has beside the key, value and headers of its one record, at the most: its header and six numbers.
    MOST_OVERHEAD = 61 + 6 * 10


class BufferFull(BufferError):
    """All the memory for records that wait is in use: send or complete some of them, or wait until that is done."""


@cython.final
cdef class Settings:
    """What the buffers of one accumulator share."""

    cdef Budget budget
    cdef size_t batch_size
    cdef int64_t max_record_size
    cdef object clock
    cdef object monotonic
    cdef object wake


include "record_arguments.pxi"


# A record, and what comes of the attempt to append it.

cdef struct record:
    bytes_t key
    bytes_t value
    bytes_t headers
    int64_t timestamp

cdef enum attempt:
    APPENDED
    NO_BATCH
    NO_ROOM

cdef struct result:
    PyObject *outcome
    int32_t index
    bint was_empty
    bint full
    size_t needed  # of bytes, when there is no batch or no room in it
    size_t had

cdef const uint8_t no_headers = 0


cdef size_t size_alone(const record *one) noexcept nogil:
    """The size of a batch with this record only."""
    cdef size_t body = record_body_size(0, 0, one.key.length, one.value.length, one.headers.length)
    return BATCH_OVERHEAD + number_size(body) + body


cdef size_t block_size(size_t wanted, size_t most) noexcept nogil:
    """The size of block to take: doubled until it fits, but not beyond the size of a batch without need."""
    cdef size_t size = SMALLEST_BLOCK
    while size < wanted:
        size *= 2
    return max(wanted, min(size, most))


cdef int64_t native_milliseconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <int64_t> now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef double native_monotonic() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


@cython.final
cdef class RecordBuffer:
    """The records that wait for one partition. Made by `Accumulator.buffer`."""

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef Settings settings
    cdef pthread_mutex_t lock
    # All below belongs to the lock. References are counted by hand, and batches are moved, not dropped, under it.
    cdef PyObject *open
    cdef PyObject *first_full
    cdef PyObject *last_full
    cdef int32_t full_count
    cdef int64_t buffered_bytes
    cdef int64_t buffered_records
    cdef size_t usual_size

    def __cinit__(self):
        pthread_mutex_init(&self.lock, NULL)

    def __init__(self):
        raise TypeError("buffers are made by Accumulator.buffer()")

    def __dealloc__(self):
        cdef PyObject *batch = self.first_full
        cdef PyObject *next
        while batch != NULL:
            next = (<EncodedBatch> batch).next
            Py_XDECREF(batch)
            batch = next
        Py_XDECREF(self.open)
        pthread_mutex_destroy(&self.lock)

    @property
    def bytes(self):
        """How many bytes of batches wait, headers of batches included."""
        return self.buffered_bytes

    @property
    def records(self):
        """How many records wait."""
        return self.buffered_records

    @property
    def full_batches(self):
        """How many batches wait that take no more records."""
        return self.full_count

    @property
    def opened_at(self):
        """When the batch that still takes records got its first one, on the monotonic clock; None without one."""
        cdef double when = 0
        cdef bint some = False
        pthread_mutex_lock(&self.lock)
        if self.open != NULL:
            some = (<EncodedBatch> self.open).records.count > 0
            when = (<EncodedBatch> self.open).opened_at
        pthread_mutex_unlock(&self.lock)
        return when if some else None

    def append(self, key, value, headers=None, timestamp=None):
        """Appends one record and gives its receipt; raises BufferFull when there is no memory left.

        Keys and values are bytes-like or None, headers pairs of str and bytes-like or None, the timestamp ms.
        """
        return self.encode(key, value, headers, timestamp)

    cdef Delivery encode(self, object key, object value, object headers, object timestamp):
        cdef argument key_argument, value_argument
        cdef record one
        take_argument(&key_argument, key, "key")
        try:
            take_argument(&value_argument, value, "value")
            try:
                one.key = key_argument.bytes
                one.value = value_argument.bytes
                one.timestamp = self.timestamp_of(timestamp)
                if headers is None:
                    one.headers.data = &no_headers
                    one.headers.length = 1
                    return self.put(&one)
                return self.put_with_headers(&one, headers)
            finally:
                release_argument(&value_argument)
        finally:
            release_argument(&key_argument)

    cdef int64_t timestamp_of(self, object timestamp) except? -1:
        if timestamp is None:
            if self.settings.clock is None:
                return native_milliseconds()
            return self.settings.clock()
        if not isinstance(timestamp, int):
            raise TypeError(f"timestamp must be an int (milliseconds) or None, not {type(timestamp).__name__}")
        try:
            return timestamp
        except OverflowError as error:
            raise ValueError(f"timestamp must fit into 64 bits, not be {timestamp}") from error

    cdef Delivery put_with_headers(self, record *one, object headers):
        cdef header_text text
        text.data = text.usual
        text.capacity = USUAL_HEADERS
        try:
            write_headers(&text, headers)
            one.headers.data = text.data
            one.headers.length = text.size
            return self.put(one)
        finally:
            release_headers(&text)

    cdef Delivery put(self, record *one):
        cdef result done
        cdef attempt said
        cdef Delivery delivery
        # The exact size only where it may matter.
        if (
            one.key.length + one.value.length + one.headers.length + MOST_OVERHEAD > self.settings.max_record_size
            and <int64_t> size_alone(one) > self.settings.max_record_size
        ):
            raise ValueError(
                f"the record takes {size_alone(one)} bytes, more than max_record_size allows "
                f"({self.settings.max_record_size})"
            )
        done.was_empty = done.full = False
        while True:
            said = self.attempt_append(one, &done)
            if said == APPENDED:
                break
            self.provide(said, &done)
        delivery = new_delivery(<Outcome> done.outcome, done.index, one.timestamp)
        Py_XDECREF(done.outcome)
        if done.was_empty or done.full:
            self.wake(done.full)
        return delivery

    cdef attempt attempt_append(self, record *one, result *done) noexcept:
        cdef attempt said
        pthread_mutex_lock(&self.lock)
        said = self.append_locked(one, done)
        pthread_mutex_unlock(&self.lock)
        return said

    cdef attempt append_locked(self, record *one, result *done) noexcept:
        cdef open_batch *batch
        cdef size_t body, size
        if self.open == NULL:
            done.needed = size_alone(one)
            return NO_BATCH
        batch = &(<EncodedBatch> self.open).records
        body = open_batch_body_size(batch, one.timestamp, one.key.length, one.value.length, one.headers.length)
        size = number_size(body) + body
        if batch.count > 0 and batch.end + size > self.settings.batch_size:
            self.close_locked()
            done.full = True
            done.needed = size_alone(one)
            return NO_BATCH
        if batch.end + size > batch.capacity:
            done.needed = batch.end + size
            done.had = batch.capacity
            return NO_ROOM
        if batch.count == 0:
            self.buffered_bytes += BATCH_OVERHEAD
        done.was_empty = self.buffered_records == 0
        done.index = batch.count
        done.outcome = <PyObject *> (<EncodedBatch> self.open).outcome
        Py_INCREF(<object> done.outcome)
        open_batch_append(batch, body, one.timestamp, one.key, one.value, one.headers)
        self.buffered_records += 1
        self.buffered_bytes += size
        if batch.end >= self.settings.batch_size:
            self.close_locked()
            done.full = True
        return APPENDED

    cdef void close_locked(self) noexcept:
        """The open batch takes no more records and goes to the end of the queue."""
        if self.last_full == NULL:
            self.first_full = self.open
        else:
            (<EncodedBatch> self.last_full).next = self.open
        self.last_full = self.open
        self.usual_size = (<EncodedBatch> self.open).records.end
        self.full_count += 1
        self.open = NULL

    cdef int provide(self, attempt said, result *done) except -1:
        """A batch or more room for a record; by the time it is here, another thread may have been first."""
        try:
            if said == NO_BATCH:
                self.add_batch(done.needed)
            else:
                self.grow_batch(done.needed, done.had)
        except BaseException:
            # The record is not in, but the batch it did not fit into has become full all the same.
            if done.full:
                self.wake(True)
            raise
        return 0

    cdef Memory charged_block(self, size_t wanted, size_t needed, size_t had):
        """A block that the budget has been charged for, beyond what the batch had before."""
        cdef Budget budget = self.settings.budget
        cdef size_t size = block_size(max(wanted, needed), max(self.settings.batch_size, needed))
        if <int64_t> needed > budget.most:
            raise ValueError(f"the record needs {needed} bytes, more than max_bytes ever allows ({budget.most})")
        if not budget.charge(size - had):
            size = needed
            if not budget.charge(size - had):
                raise BufferFull(
                    f"{budget.used} of {budget.most} bytes are in use, and {needed} more are needed for a record "
                    f"to {self.topic}-{self.partition}: send some, wait, or raise max_bytes"
                )
        try:
            return take(size)
        except BaseException:
            budget.refund(size - had)
            raise

    cdef int add_batch(self, size_t needed) except -1:
        cdef Memory memory = self.charged_block(self.usual_size, needed, 0)
        cdef EncodedBatch batch = new_batch(self.topic, self.partition, memory)
        batch.budget = self.settings.budget
        batch.charged = memory.size
        monotonic = self.settings.monotonic
        batch.opened_at = native_monotonic() if monotonic is None else monotonic()
        pthread_mutex_lock(&self.lock)
        if self.open == NULL:
            Py_INCREF(batch)
            self.open = <PyObject *> batch
        pthread_mutex_unlock(&self.lock)
        return 0

    cdef int grow_batch(self, size_t needed, size_t had) except -1:
        cdef Memory memory = self.charged_block(2 * had, needed, had)
        cdef Memory old = memory
        cdef EncodedBatch batch
        pthread_mutex_lock(&self.lock)
        if self.open != NULL and (<EncodedBatch> self.open).records.capacity == had:
            batch = <EncodedBatch> self.open
            memcpy(memory.data + BATCH_OVERHEAD, batch.records.data + BATCH_OVERHEAD,
                   batch.records.end - BATCH_OVERHEAD)
            old = batch.memory
            batch.memory = memory
            batch.records.data = memory.data
            batch.records.capacity = memory.size
            batch.charged = memory.size
        pthread_mutex_unlock(&self.lock)
        if old is memory:
            self.settings.budget.refund(memory.size - had)
        return 0

    cdef void wake(self, bint full) noexcept:
        # The record is in the buffer whatever happens now, so an error here must not look like one of append():
        # without a way to pass it on, it goes to sys.unraisablehook.
        if self.settings.wake is not None:
            self.settings.wake(self, full)

    def drain(self, max_bytes=None, force=False):
        """The full batches, in order, and with `force` the one that still takes records too.

        With `max_bytes`, as many as fit, but always at least one, so that a large one does not wait forever.
        """
        cdef int64_t room = INT64_MAX if max_bytes is None else max_bytes
        cdef list batches = []
        cdef EncodedBatch batch = self.pop(force, INT64_MAX)
        while batch is not None:
            batches.append(batch)
            room -= batch.records.end
            batch = self.pop(force, room)
        return batches

    cdef EncodedBatch pop(self, bint force, int64_t room):
        cdef PyObject *batch
        pthread_mutex_lock(&self.lock)
        batch = self.pop_locked(force, room)
        pthread_mutex_unlock(&self.lock)
        if batch == NULL:
            return None
        popped = <EncodedBatch> batch
        Py_XDECREF(batch)
        return popped

    cdef PyObject *pop_locked(self, bint force, int64_t room) noexcept:
        cdef PyObject *batch
        if self.first_full == NULL and force and self.open != NULL and (<EncodedBatch> self.open).records.count > 0:
            self.close_locked()
        batch = self.first_full
        if batch == NULL or <int64_t> (<EncodedBatch> batch).records.end > room:
            return NULL
        self.first_full = (<EncodedBatch> batch).next
        if self.first_full == NULL:
            self.last_full = NULL
        (<EncodedBatch> batch).next = NULL
        self.full_count -= 1
        self.buffered_bytes -= (<EncodedBatch> batch).records.end
        self.buffered_records -= (<EncodedBatch> batch).records.count
        return batch

    def __repr__(self):
        return (
            f"<RecordBuffer of {self.topic}-{self.partition}: {self.buffered_records} records, "
            f"{self.buffered_bytes} bytes>"
        )


# The buffers that were used last, so that the usual append needs no dict. The parts of an entry belong together, and
# without the GIL somebody could see half of a change.

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define HAS_GIL 0
    #else
    #define HAS_GIL 1
    #endif
    """
    bint HAS_GIL

cdef enum:
    RECENT = 16

cdef struct recent_buffer:
    PyObject *topic
    PyObject *buffer
    long partition


@cython.final
cdef class Accumulator:
    """The buffers of all partitions, under one bound for their memory.

    `wake(buffer, full)` is called by the appending thread when a buffer was empty and is not any more, or when a
    batch of it has become full; what it raises goes to `sys.unraisablehook`. `clock()` gives the time in ms for
    records without a timestamp, `monotonic()` the seconds that `opened_at` is measured in; None stands for the
    system's clocks.
    """

    cdef Settings settings
    cdef dict topics
    cdef recent_buffer recent[RECENT]

    def __init__(
        self, *, batch_size, max_bytes, max_record_size=INT32_MAX, clock=None, monotonic=None, wake=None
    ):
        if not BATCH_OVERHEAD < batch_size <= INT32_MAX:
            raise ValueError(f"batch_size must be from {BATCH_OVERHEAD + 1} to {INT32_MAX} bytes, not {batch_size}")
        if not BATCH_OVERHEAD < max_record_size <= INT32_MAX:
            raise ValueError(
                f"max_record_size must be from {BATCH_OVERHEAD + 1} to {INT32_MAX} bytes, not {max_record_size}"
            )
        if max_bytes < batch_size:
            raise ValueError(f"max_bytes must hold at least one batch of {batch_size} bytes, not {max_bytes}")
        self.topics = {}
        self.settings = Settings()
        self.settings.budget = Budget(max_bytes)
        self.settings.batch_size = batch_size
        self.settings.max_record_size = max_record_size
        self.settings.clock = clock
        self.settings.monotonic = monotonic
        self.settings.wake = wake

    def append(self, topic, partition, key, value, headers=None, timestamp=None):
        """Appends one record to a partition and gives its receipt; see `RecordBuffer.append`."""
        return self.find(topic, partition).encode(key, value, headers, timestamp)

    def buffer(self, topic, partition):
        """The buffer of a partition, made where there is none."""
        return self.find(topic, partition)

    cdef RecordBuffer find(self, object topic, object partition):
        cdef recent_buffer *recent
        cdef int overflow
        cdef long number
        if HAS_GIL and PyLong_CheckExact(partition):
            number = PyLong_AsLongAndOverflow(partition, &overflow)
            recent = &self.recent[number & (RECENT - 1)]
            if recent.topic == <PyObject *> topic and recent.partition == number and not overflow:
                return <RecordBuffer> recent.buffer
        return self.look_up(topic, partition)

    cdef RecordBuffer look_up(self, object topic, object partition):
        # Borrowed, and safe: nothing is ever taken out of these dicts.
        cdef PyObject *partitions = PyDict_GetItemWithError(self.topics, topic)
        cdef PyObject *found
        if partitions != NULL:
            found = PyDict_GetItemWithError(<object> partitions, partition)
            if found != NULL:
                self.remember(<RecordBuffer> found, topic)
                return <RecordBuffer> found
        return self.add(topic, partition)

    cdef void remember(self, RecordBuffer buffer, object topic) noexcept:
        cdef recent_buffer *recent
        # Known again by the name's identity, so only a name that the buffer keeps alive will do.
        if HAS_GIL and topic is buffer.topic:
            recent = &self.recent[buffer.partition & (RECENT - 1)]
            recent.topic = <PyObject *> topic
            recent.partition = buffer.partition
            recent.buffer = <PyObject *> buffer

    cdef RecordBuffer add(self, object topic, object partition):
        cdef RecordBuffer buffer = RecordBuffer.__new__(RecordBuffer)
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        if not isinstance(partition, int):
            raise TypeError(f"partition must be an int, not {type(partition).__name__}")
        if not 0 <= partition <= INT32_MAX:
            raise ValueError(f"partition must be from 0 on, not {partition}")
        buffer.topic = topic
        buffer.partition = partition
        buffer.settings = self.settings
        # Two threads may be here at once: the buffer that comes first is the one.
        return self.topics.setdefault(topic, {}).setdefault(partition, buffer)

    def drain(self, topic, partition, max_bytes=None, force=False):
        """The batches of a partition that are full, or all; see `RecordBuffer.drain`."""
        return self.find(topic, partition).drain(max_bytes, force)

    def buffers(self):
        """The buffers of all partitions, with or without records."""
        return [buffer for partitions in list(self.topics.values()) for buffer in list(partitions.values())]

    def ready(self, double now, double linger):
        """The buffers to drain, and when the next one will have to be: None if none is waiting.

        A buffer is ready with a full batch, or when its open one got the first record at least `linger` seconds
        before `now`, on the monotonic clock.
        """
        cdef RecordBuffer buffer
        cdef list ready = []
        cdef object deadline = None
        for buffer in self.buffers():
            opened_at = buffer.opened_at
            if buffer.full_count > 0 or (opened_at is not None and opened_at + linger <= now):
                ready.append(buffer)
            elif opened_at is not None and (deadline is None or opened_at + linger < deadline):
                deadline = opened_at + linger
        return ready, deadline

    @property
    def records(self):
        """How many records wait, in all buffers."""
        return sum([buffer.records for buffer in self.buffers()])

    @property
    def bytes(self):
        """How many bytes of batches wait, in all buffers."""
        return sum([buffer.bytes for buffer in self.buffers()])

    @property
    def used_bytes(self):
        """How much memory is taken, by what waits and by batches that have left and are not completed yet."""
        return self.settings.budget.used

    @property
    def max_bytes(self):
        return self.settings.budget.most
