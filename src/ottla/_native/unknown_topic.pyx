# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Records of a topic that is not known yet: metadata must say how many partitions it has before they can be placed.

They wait here as bytes, in order, counted and charged for like those in buffers. In the end they are all released
into the buffers of their topic or all fail; a record that comes later, from a slow thread, shares that fate.

Invariants: nothing is kept of the arguments that the caller could still change; and records are released in the order
in which they came, before any that comes later.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ottla._native.accumulator cimport Accumulator
from ottla._native.appender cimport TopicAppender
from ottla._native.deliveries cimport Budget, Callbacks, Delivery, Outcome, failed_delivery, new_delivery, new_outcome
from ottla._native.outgoing cimport bytes_t
from ottla._native.record_buffer cimport (
    MOVED, Settings, bytes_full, check_open, check_size, monotonic_now, native_milliseconds, never_fits, record,
    records_full, size_alone, timestamp_of,
)

from _thread import RLock

from ottla._native.record_buffer import BufferRetired

cdef extern from "writer.h" nogil:
    uint8_t *write_zigzag(uint8_t *p, int64_t value)
    uint8_t *write_last_bytes(uint8_t *p, bytes_t bytes)

include "record_arguments.pxi"


# Nothing in it can refer to anything else; and it is accounted for while it dies.
@cython.final
@cython.no_gc
cdef class WaitingRecord:
    cdef bytes key
    cdef bytes value
    cdef bytes headers
    cdef int64_t partition  # -1: to be chosen
    cdef int64_t timestamp
    cdef Budget budget
    cdef int64_t charged

    cdef int64_t uncharge(self) noexcept:
        cdef int64_t charged = self.charged
        self.charged = 0
        if charged:
            self.budget.refund(charged)
        return charged

    cdef void settle(self) noexcept:
        if self.uncharge():
            self.budget.refund_records(1)

    def __dealloc__(self):
        self.settle()


@cython.final
cdef class UnknownTopicBuffer:
    """The records that wait for one topic to become known."""

    cdef readonly str topic
    cdef Settings settings
    cdef Outcome outcome
    cdef object lock
    cdef list waiting
    cdef int64_t waiting_bytes
    cdef double first_at
    # What became of them, and becomes of those that come later.
    cdef TopicAppender appender
    cdef object error
    cdef bint is_retired

    def __init__(self, Accumulator accumulator not None, str topic not None):
        self.settings = accumulator.settings
        self.topic = topic
        self.outcome = new_outcome(topic, -1, self.settings.waiting)
        self.lock = RLock()
        self.waiting = []

    @property
    def records(self):
        """How many records wait."""
        return len(self.waiting)

    @property
    def bytes(self):
        """How many bytes they were charged for."""
        return self.waiting_bytes

    @property
    def opened_at(self):
        """When the first of them came, on the monotonic clock; None without one."""
        return self.first_at if self.waiting else None

    def append(self, key, value, headers=None, partition=None, timestamp=None):
        """Keeps one record and gives its receipt; the arguments and errors are those of `TopicAppender.append`."""
        cdef arguments taken
        begin_arguments(&taken)
        try:
            take_arguments(&taken, self.settings, key, value, headers, timestamp)
            with self.lock:
                if self.appender is not None:
                    return self.appender.place(&taken.one, key, value, partition, 0)
                if self.error is not None:
                    return failed_delivery(self.topic, -1, taken.one.timestamp, self.error)
                if self.is_retired:
                    raise BufferRetired(f"what keeps the records for {self.topic} was let go")
                return self.keep(&taken.one, key, value, partition)
        finally:
            release_arguments(&taken)

    cdef Delivery keep(self, record *one, object key, object value, object partition):
        cdef WaitingRecord kept = WaitingRecord.__new__(WaitingRecord)
        cdef int32_t index = <int32_t> len(self.waiting)
        kept.partition = named_partition(partition)
        kept.key = copied(key, one.key)
        kept.value = copied(value, one.value)
        kept.headers = PyBytes_FromStringAndSize(<const char *> one.headers.data, one.headers.length)
        kept.timestamp = one.timestamp
        if index == 0:
            self.first_at = monotonic_now(self.settings)
        self.charge(kept, one)
        self.waiting.append(kept)
        return new_delivery(self.outcome, index, one.timestamp)

    cdef int charge(self, WaitingRecord kept, record *one) except -1:
        cdef Budget budget = self.settings.budget
        cdef int64_t size = size_alone(one)
        check_open(self.settings)
        check_size(self.settings, one)
        if size > budget.most:
            raise never_fits(f"a record to {self.topic} needs", size, budget)
        if not budget.charge_records(1):
            raise records_full(budget, f"a record to {self.topic}")
        if not budget.charge(size):
            budget.refund_records(1)
            raise bytes_full(budget, size, f"a record to {self.topic}")
        kept.budget = budget
        kept.charged = size
        self.waiting_bytes += size
        return 0

    def release(self, TopicAppender appender not None):
        """Appends all to the buffers of the topic. A record that cannot be placed fails, and only that one.

        Neither a bound nor the end of appending keeps them out: they were taken before. How many failed, and the
        first error.
        """
        cdef list bound = []
        cdef Py_ssize_t failed = 0
        cdef object first = None
        cdef Outcome outcome = self.outcome
        with self.lock:
            self.check_waiting()
            for kept in self.waiting:
                bound.append(self.moved(<WaitingRecord> kept, appender))
            self.appender = appender
            self.forget()
            # Before a callback runs, which may wait for others to be done.
            failed, first = failures(bound)
            outcome.move_to(bound)
        if outcome.urgent:
            self.unlinger(bound)
        return failed, first

    def fail(self, error):
        """None of them is delivered; how many that are."""
        cdef Callbacks callbacks
        cdef WaitingRecord kept
        cdef Py_ssize_t count
        cdef Outcome outcome = self.outcome
        if not isinstance(error, BaseException):
            raise TypeError(f"error must be an exception, not {type(error).__name__}")
        with self.lock:
            self.check_waiting()
            count = len(self.waiting)
            for kept in self.waiting:
                kept.settle()
            self.error = error
            self.forget()
            callbacks = outcome.conclude(-1, -1, error)
        outcome.call_back(callbacks, None)
        return count

    cdef int check_waiting(self) except -1:
        if self.appender is not None or self.error is not None:
            raise RuntimeError(f"the records waiting for {self.topic} have been released or have failed before")
        return 0

    cdef int forget(self) except -1:
        self.waiting = []
        self.waiting_bytes = 0
        # From here on it is the receipts'. It has receipts itself, which the collector does not see, and they lead
        # to the client: kept here, it would keep the client and all of this.
        self.outcome = None
        return 0

    def retire(self):
        """Takes no more records, unless some wait: False. An append gets BufferRetired from then on."""
        with self.lock:
            if self.waiting:
                return False
            self.is_retired = True
        return True

    cdef Delivery moved(self, WaitingRecord kept, TopicAppender appender):
        cdef record one
        cdef Delivery delivery
        one.key = as_bytes_t(kept.key)
        one.value = as_bytes_t(kept.value)
        one.headers = as_bytes_t(kept.headers)
        one.timestamp = kept.timestamp
        try:
            delivery = appender.place(
                &one, kept.key, kept.value, None if kept.partition < 0 else kept.partition, MOVED
            )
            # Not before it has been charged for again: in between, another append could have taken the room.
            kept.uncharge()
            return delivery
        except BaseException as error:
            # Whatever it is, it must not keep the records behind it from their places, nor this one from its end.
            kept.settle()
            return failed_delivery(self.topic, -1, kept.timestamp, error)

    cdef int unlinger(self, list bound) except -1:
        """A caller that waited for one of them waits for it in its partition now."""
        cdef Delivery delivery
        unlinger = self.settings.waiting.how_to_unlinger()
        if unlinger is not None:
            for partition in dict.fromkeys([(<Delivery> delivery).partition for delivery in bound]):
                if partition >= 0:
                    unlinger(self.topic, partition)
        return 0


cdef tuple failures(list bound):
    """Of records that have just been moved: only those that could not be placed are done by now."""
    cdef Delivery delivery
    cdef list errors = [error for delivery in bound if (error := delivery.error) is not None]
    return len(errors), errors[0] if errors else None


cdef int64_t named_partition(object partition) except? -1:
    if partition is None:
        return -1
    if not isinstance(partition, int):
        raise TypeError(f"partition must be an int or None, not {type(partition).__name__}")
    if not 0 <= partition <= INT32_MAX:
        raise ValueError(f"partition must be from 0 on, not {partition}")
    return partition


cdef bytes copied(object given, bytes_t taken):
    if given is None or PyBytes_CheckExact(given):
        return given
    return PyBytes_FromStringAndSize(<const char *> taken.data, taken.length)


cdef bytes_t as_bytes_t(bytes given) noexcept:
    cdef bytes_t found
    found.data = NULL
    found.length = -1
    if given is not None:
        found.data = <const uint8_t *> PyBytes_AS_STRING(given)
        found.length = PyBytes_GET_SIZE(given)
    return found
