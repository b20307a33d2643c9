# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""The records of one partition that wait to be sent: encoded as they are appended.

Any thread may append. What leaves are whole batches, in the order of their records, when the loop drains them. Nothing
here waits: when the memory is used up, `append` raises, and `wake` notifies the loop when there is something new to
do. Which partition a record goes to is decided elsewhere (`appender`).

Each buffer has one lock (`locks.h`: the GIL, where there is one), held for the writing of one record or the moving of
one batch. While it is held nothing is called or allocated that could run Python code, not even the garbage collector:
a batch or a larger block is made beforehand, then put in place under the lock if it is still wanted.

Invariants: a batch is at most `batch_size` bytes unless it has one record only; it is never empty when it leaves; and
what all batches take, until they are completed or dropped, is at most `max_bytes`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT64_MAX, uint8_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from ottla._native.deliveries cimport Budget, Outcome, charge_record, new_delivery
from ottla._native.memory cimport Memory, take
from ottla._native.outgoing cimport EncodedBatch, new_batch, open_batch

from ottla.errors import RecordTooLargeError

cdef extern from "locks.h" nogil:
    void brief_lock_init(brief_lock *)
    void brief_lock_end(brief_lock *)
    void brief_lock_take(brief_lock *)
    void brief_lock_give(brief_lock *)

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


class BufferFull(BufferError):
    """There is no room for more records: complete some that were sent, or wait until that is done.

    `limit` says what is used up: "bytes" or "records".
    """

    limit = "bytes"

    def __init__(self, text, limit="bytes"):
        super().__init__(text)
        self.limit = limit


class BufferRetired(Exception):
    """The buffer of a partition, or what holds a topic's records, was let go: nothing was appended, look it up again."""


@cython.final
cdef class Settings:
    """What the buffers of one accumulator share."""


include "record_arguments.pxi"


cdef size_t record_size(const record *one) noexcept nogil:
    cdef size_t body = record_body_size(0, 0, one.key.length, one.value.length, one.headers.length)
    return number_size(body) + body


cdef size_t size_alone(const record *one) noexcept nogil:
    return BATCH_OVERHEAD + record_size(one)


cdef int check_open(Settings settings) except -1:
    if settings.is_closed:
        # It is raised to many: its traceback must not grow with each of them.
        raise settings.closed.with_traceback(None)
    return 0


cdef int check_exact_size(Settings settings, const record *one) except -1:
    if <int64_t> size_alone(one) > settings.max_record_size:
        raise too_large("the record", size_alone(one), settings.max_record_size)
    return 0


cdef object too_large(where, int64_t size, int64_t most):
    """For a record that no request may hold."""
    return RecordTooLargeError(
        f"{where} takes {size} bytes, more than max_request_size={most} allows: raise it, and max.message.bytes of the "
        f"topic with it, or send less in one record", size=size, limit="max_request_size",
    )


cdef object never_fits(where, int64_t size, Budget budget):
    """For what there would be no room for in an empty buffer either."""
    return RecordTooLargeError(
        f"{where} {size} bytes, more than buffer_memory={budget.most} ever allows: raise it, or send less at a time",
        size=size, limit="buffer_memory",
    )


cdef object bytes_full(Budget budget, size_t needed, where):
    return BufferFull(
        f"{budget.used} of {budget.most} bytes are in use, and {needed} more are needed for {where}", "bytes",
    )


cdef object records_full(Budget budget, where):
    return BufferFull(
        f"{budget.records} records wait or are under way, and at most {budget.most_records} may, so that there is no "
        f"room for {where}", "records",
    )


cdef int64_t timestamp_of(Settings settings, object timestamp) except? -1:
    cdef int64_t given
    if timestamp is None:
        return native_milliseconds() if settings.clock is None else settings.clock()
    if not isinstance(timestamp, int):
        raise TypeError(f"timestamp must be an int (milliseconds) or None, not {type(timestamp).__name__}")
    try:
        given = timestamp
    except OverflowError as error:
        raise ValueError(f"timestamp must fit into 64 bits, not be {timestamp}") from error
    if given < 0:
        raise ValueError(f"timestamp must be from 0 on (milliseconds since 1970), not {timestamp}")
    return given


cdef double monotonic_now(Settings settings) except? -1:
    return native_monotonic() if settings.monotonic is None else settings.monotonic()


cdef size_t block_size(size_t wanted, size_t most) noexcept nogil:
    """The size of block to take: doubled until it fits, but not beyond the size of a batch without need."""
    cdef size_t size = SMALLEST_BLOCK
    while size < wanted:
        size *= 2
    return max(wanted, min(size, most))


cdef double native_monotonic() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


# The collector does not clear it: a thread that appends while a cycle is taken apart still finds the settings.
@cython.final
@cython.no_gc_clear
cdef class RecordBuffer:
    """The records that wait for one partition. Made by `Accumulator.buffer`."""

    def __cinit__(self):
        brief_lock_init(&self.lock)

    def __init__(self):
        raise TypeError("buffers are made by Accumulator.buffer()")

    def __dealloc__(self):
        # One by one: a long queue that is dropped at its head would end each batch inside the one before.
        while self.first_full is not None:
            self.first_full = self.first_full.next
        brief_lock_end(&self.lock)

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
        brief_lock_take(&self.lock)
        if self.open is not None:
            some = self.open.records.count > 0
            when = self.open.opened_at
        brief_lock_give(&self.lock)
        return when if some else None

    def append(self, key, value, headers=None, timestamp=None, bint opens=True):
        """Appends one record and gives its receipt; raises BufferFull when there is no room left.

        Keys and values are bytes-like or None, headers pairs of str and bytes-like or None, the timestamp ms. With
        `opens=False` a record that would be the first of a batch is not appended: None.
        """
        return self.encode(key, value, headers, timestamp, OPENS if opens else 0)

    cdef Delivery encode(self, object key, object value, object headers, object timestamp, int how):
        cdef arguments taken
        begin_arguments(&taken)
        try:
            take_arguments(&taken, self.settings, key, value, headers, timestamp)
            check_size(self.settings, &taken.one)
            return self.put(&taken.one, how)
        finally:
            release_arguments(&taken)

    cdef Delivery put(self, record *one, int how):
        """The receipt; None if the record would open a batch and is not to. Its size has been checked."""
        cdef result done
        cdef attempt said
        cdef Delivery delivery
        done.was_empty = done.full = False
        while True:
            said = self.attempt_append(one, how, &done)
            if said == APPENDED:
                break
            if said == NO_BATCH and not how & OPENS:
                if done.full:
                    self.wake(True)
                return None
            if said == RETIRED:
                raise BufferRetired(f"the buffer of {self.topic}-{self.partition} was let go")
            self.provide(said, how, &done)
        delivery = new_delivery(<Outcome> done.outcome, done.index, one.timestamp)
        Py_XDECREF(done.outcome)
        if done.was_empty or done.full:
            self.wake(done.full)
        return delivery

    cdef attempt attempt_append(self, record *one, int how, result *done) noexcept:
        cdef attempt said
        brief_lock_take(&self.lock)
        said = self.append_locked(one, how, done)
        brief_lock_give(&self.lock)
        return said

    cdef attempt append_locked(self, record *one, int how, result *done) noexcept:
        cdef open_batch *batch
        cdef size_t body, size
        if self.settings.is_closed and not how & MOVED:
            return CLOSED
        if self.open is None:
            if self.is_retired:
                return RETIRED
            done.needed = size_alone(one)
            return NO_BATCH
        batch = &self.open.records
        if batch.count == 0 and not how & OPENS:
            return NO_BATCH
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
        if not how & MOVED and not charge_record(self.settings.budget):
            return NO_RECORDS
        if batch.count == 0:
            self.buffered_bytes += BATCH_OVERHEAD
        done.was_empty = self.buffered_records == 0
        done.index = batch.count
        done.outcome = <PyObject *> self.open.outcome
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
        self.last_full = <PyObject *> self.open
        self.usual_size = self.open.records.end
        self.full_count += 1
        self.open = None

    cdef int provide(self, attempt said, int how, result *done) except -1:
        """A batch or more room for a record; by the time it is here, another thread may have been first."""
        cdef Budget budget = self.settings.budget
        try:
            if said == CLOSED:
                check_open(self.settings)
            # A batch that is made in vain would be charged for, and never leave.
            elif not how & MOVED and budget.used_records >= budget.most_records:
                raise records_full(budget, f"a record to {self.topic}-{self.partition}")
            elif said == NO_BATCH:
                self.add_batch(done.needed, how)
            elif said == NO_ROOM:
                self.grow_batch(done.needed, done.had, how)
        except BaseException:
            # The record is not in, but the batch it did not fit into has become full all the same.
            if done.full:
                self.wake(True)
            raise
        return 0

    cdef Memory charged_block(self, size_t wanted, size_t needed, size_t had, int how):
        """A block that the budget has been charged for, beyond what the batch had before."""
        cdef Budget budget = self.settings.budget
        cdef size_t size = block_size(max(wanted, needed), max(self.settings.batch_size, needed))
        if <int64_t> needed > budget.most:
            raise never_fits(f"a record to {self.topic}-{self.partition} needs", needed, budget)
        if not budget.charge(size - had):
            size = needed
            if how & MOVED:
                budget.charge_anyway(size - had)
            elif not budget.charge(size - had):
                raise bytes_full(budget, needed, f"a record to {self.topic}-{self.partition}")
        try:
            return take(size)
        except BaseException:
            budget.refund(size - had)
            raise

    cdef int add_batch(self, size_t needed, int how) except -1:
        cdef Memory memory = self.charged_block(self.usual_size, needed, 0, how)
        cdef EncodedBatch batch = new_batch(self.topic, self.partition, memory, self.settings.waiting)
        batch.budget = self.settings.budget
        batch.charged = memory.size
        batch.opened_at = monotonic_now(self.settings)
        brief_lock_take(&self.lock)
        if self.open is None and not self.is_retired:
            self.open = batch
        brief_lock_give(&self.lock)
        return 0

    cdef int grow_batch(self, size_t needed, size_t had, int how) except -1:
        cdef Memory memory = self.charged_block(2 * had, needed, had, how)
        cdef Memory old = memory
        cdef EncodedBatch batch
        brief_lock_take(&self.lock)
        if self.open is not None and self.open.records.capacity == had:
            batch = self.open
            memcpy(memory.data + BATCH_OVERHEAD, batch.records.data + BATCH_OVERHEAD,
                   batch.records.end - BATCH_OVERHEAD)
            old = batch.memory
            batch.memory = memory
            batch.records.data = memory.data
            batch.records.capacity = memory.size
            batch.charged = memory.size
        brief_lock_give(&self.lock)
        if old is memory:
            self.settings.budget.refund(memory.size - had)
        return 0

    cdef void wake(self, bint full) noexcept:
        # The record is in the buffer whatever happens now, so an error here must not look like one of append():
        # without a way to pass it on, it goes to sys.unraisablehook.
        if self.settings.wake is not None:
            self.settings.wake(self, full)

    cdef void pass_lock(self) noexcept:
        """Returns when no thread that came before is still inside."""
        brief_lock_take(&self.lock)
        brief_lock_give(&self.lock)

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
        cdef EncodedBatch batch
        brief_lock_take(&self.lock)
        batch = self.pop_locked(force, room)
        brief_lock_give(&self.lock)
        return batch

    cdef EncodedBatch pop_locked(self, bint force, int64_t room):
        cdef EncodedBatch batch
        if self.first_full is None and force and self.open is not None and self.open.records.count > 0:
            self.close_locked()
        batch = self.first_full
        if batch is None or <int64_t> batch.records.end > room:
            return None
        self.first_full = batch.next
        if self.first_full is None:
            self.last_full = NULL
        batch.next = None
        self.full_count -= 1
        self.buffered_bytes -= batch.records.end
        self.buffered_records -= batch.records.count
        return batch

    cdef bint retire(self) noexcept:
        """Takes no more records; False if there are some, and it goes on."""
        cdef EncodedBatch unused = None
        cdef bint is_empty
        brief_lock_take(&self.lock)
        is_empty = self.buffered_records == 0
        if is_empty:
            self.is_retired = True
            # Dropped behind the lock.
            unused = self.open
            self.open = None
        brief_lock_give(&self.lock)
        return is_empty

    cdef void restore(self) noexcept:
        brief_lock_take(&self.lock)
        self.is_retired = False
        brief_lock_give(&self.lock)

    def __repr__(self):
        return (
            f"<RecordBuffer of {self.topic}-{self.partition}: {self.buffered_records} records, "
            f"{self.buffered_bytes} bytes>"
        )
