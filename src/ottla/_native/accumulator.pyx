# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Records that wait to be sent: the buffers of all partitions, under one bound for what they take.

A buffer (`record_buffer`) does the work. Here is which one: made where there is none, and found again quickly.
Clocks are injected; the native ones are the default.
"""

cimport cython
from cpython.long cimport PyLong_AsLongAndOverflow, PyLong_CheckExact
from libc.stdint cimport INT32_MAX, INT64_MAX

from ottla._native.deliveries cimport Budget, Waiting
from ottla._native.record_buffer cimport OPENS, RecordBuffer, Settings

cdef extern from "writer.h":
    enum:
        BATCH_OVERHEAD

# The buffers that were used last, so that the usual append needs no dict. The parts of an entry belong together, and
# without the GIL another thread could see half of a change.

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define HAS_GIL 0
    #else
    #define HAS_GIL 1
    #endif
    """
    bint HAS_GIL

@cython.final
cdef class Accumulator:
    """The buffers of all partitions, under one bound for their memory.

    `wake(buffer, full)` is called by the appending thread when a buffer was empty and is not any more, or when a
    batch of it has become full; what it raises goes to `sys.unraisablehook`. `clock()` gives the time in ms for
    records without a timestamp, `monotonic()` the seconds that `opened_at` is measured in; None stands for the
    system's clocks.

    `max_bytes` and, unless it is 0, `max_records` bound what waits or is under way. `wait(delivery, timeout)` blocks
    until a delivery is done or the seconds are over, for `Delivery.result`; `unlinger(topic, partition)` is called when
    a caller begins to wait for a record that is there, with partition -1 while the topic is not known.
    """

    def __init__(
        self, *, batch_size, max_bytes, max_records=0, max_record_size=INT32_MAX, clock=None, monotonic=None,
        wake=None, wait=None, unlinger=None,
    ):
        if not BATCH_OVERHEAD < batch_size <= INT32_MAX:
            raise ValueError(f"batch_size must be from {BATCH_OVERHEAD + 1} to {INT32_MAX} bytes, not {batch_size}")
        if not BATCH_OVERHEAD < max_record_size <= INT32_MAX:
            raise ValueError(
                f"max_record_size must be from {BATCH_OVERHEAD + 1} to {INT32_MAX} bytes, not {max_record_size}"
            )
        if max_bytes < batch_size:
            raise ValueError(f"max_bytes must hold at least one batch of {batch_size} bytes, not {max_bytes}")
        if max_records < 0:
            raise ValueError(f"max_records must be from 0 (no bound) on, not {max_records}")
        self.topics = {}
        self.settings = Settings()
        self.settings.budget = Budget(max_bytes, max_records or INT64_MAX)
        self.settings.waiting = Waiting()
        self.settings.waiting.wait = wait
        self.settings.waiting.unlinger = unlinger
        self.settings.batch_size = batch_size
        self.settings.max_record_size = max_record_size
        self.settings.clock = clock
        self.settings.monotonic = monotonic
        self.settings.wake = wake

    def append(self, topic, partition, key, value, headers=None, timestamp=None):
        """Appends one record to a partition and gives its receipt; see `RecordBuffer.append`."""
        return self.find(topic, partition).encode(key, value, headers, timestamp, OPENS)

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
        cdef dict partitions = self.topics.get(topic)
        cdef RecordBuffer found
        if partitions is not None:
            found = partitions.get(partition)
            if found is not None:
                self.remember(found, topic)
                return found
        return self.add(topic, partition)

    cdef void remember(self, RecordBuffer buffer, object topic) noexcept:
        cdef recent_buffer *recent
        # Known again by the name's identity, so only a name that the buffer keeps alive will do.
        if HAS_GIL and topic is buffer.topic and not buffer.is_retired:
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

    def close(self, error):
        """An append gets the error from now on; what is there stays, to be drained."""
        if not isinstance(error, BaseException):
            raise TypeError(f"error must be an exception, not {type(error).__name__}")
        self.settings.closed = error
        self.settings.is_closed = True
        for buffer in self.buffers():
            (<RecordBuffer> buffer).pass_lock()

    def disconnect(self):
        """No thread can wait for a record through it any more, and a receipt that is kept does not keep its client."""
        self.settings.waiting.disconnect()

    def forget(self, topic):
        """Lets the buffers of a topic go, unless one of them has records: False, and all stay.

        A thread that still appends to one gets BufferRetired, and nothing was appended.
        """
        cdef RecordBuffer buffer
        cdef list retired = []
        cdef dict partitions = self.topics.get(topic, {})
        for buffer in list(partitions.values()):
            if not buffer.retire():
                for buffer in retired:
                    buffer.restore()
                return False
            retired.append(buffer)
        # Before the last reference can go: the ones that are kept for speed are borrowed.
        for number in range(RECENT):
            for buffer in retired:
                if self.recent[number].buffer == <PyObject *> buffer:
                    self.recent[number].topic = NULL
                    self.recent[number].buffer = NULL
        self.topics.pop(topic, None)
        return True

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

    @property
    def used_records(self):
        """How many records wait or are under way: appended or held, and not completed yet."""
        return self.settings.budget.records

    @property
    def max_records(self):
        """The bound for `used_records`; 0 if there is none."""
        return 0 if self.settings.budget.most_records == INT64_MAX else self.settings.budget.most_records
