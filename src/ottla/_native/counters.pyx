# cython: language_level=3, freethreading_compatible=True
"""What a client counts per request and per batch.

A client that sends one record at a time counts as often as it produces: in Python that would be a tenth of the work.
What is made of the counts is in client/metrics/.

Invariant: only the client's loop counts; any thread may read.
"""

cimport cython
from libc.math cimport frexp
from libc.stdint cimport int64_t

cdef enum:
    PER_OCTAVE = 16
    # The bucket of zero: below that of the smallest float.
    ZERO = -(1 << 20)


@cython.final
cdef class Histogram:
    """Counts values by their size: each power of two is divided into sixteen buckets.

    A negative value (a clock that was set back) counts as zero.
    """

    cdef readonly dict buckets
    cdef readonly double sum
    cdef readonly double max

    def __init__(self):
        self.buckets = {}

    cpdef record(self, double value):
        cdef int exponent
        cdef double mantissa
        cdef int bucket = ZERO
        if value > 0:
            mantissa = frexp(value, &exponent)
            # The mantissa is in [0.5, 1): sixteen steps of 1/32.
            bucket = exponent * PER_OCTAVE + <int> (mantissa * 32) - 16
            self.sum += value
            if value > self.max:
                self.max = value
        key = bucket
        count = self.buckets.get(key)
        self.buckets[key] = 1 if count is None else count + 1


@cython.final
cdef class RequestCounts:
    """Of the requests of one API."""

    cdef readonly int64_t sent
    cdef readonly int64_t responses
    cdef readonly int64_t errors
    cdef readonly int64_t bytes_out
    cdef readonly int64_t bytes_in
    cdef readonly dict latency
    """By broker, as operators need it of produce and of fetch requests."""

    def __init__(self):
        self.latency = {}


cdef class Counters:
    """The hooks of a client that come with every request, and with what it has produced or fetched."""

    cdef readonly dict requests
    """By the key of their API."""
    cdef readonly int64_t produced_batches
    cdef readonly int64_t produced_records
    cdef readonly int64_t retried_records
    cdef readonly int64_t bytes_sent
    cdef readonly int64_t bytes_raw
    cdef readonly int64_t consumed_records
    cdef readonly int64_t consumed_bytes
    cdef readonly Histogram batch_sizes
    cdef readonly Histogram queue_times

    def __init__(self):
        self.requests = {}
        self.batch_sizes = Histogram()
        self.queue_times = Histogram()

    cdef RequestCounts counts_of(self, api_key):
        counts = self.requests.get(api_key)
        if counts is None:
            counts = self.requests[api_key] = RequestCounts()
        return <RequestCounts> counts

    def on_broker_write(self, node_id, api_key, int64_t size, error):
        cdef RequestCounts counts = self.counts_of(api_key)
        if error is None:
            counts.sent += 1
            counts.bytes_out += size
        else:
            counts.errors += 1

    def on_broker_read(self, node_id, api_key, int64_t size, double seconds, error):
        cdef RequestCounts counts = self.counts_of(api_key)
        if error is not None:
            counts.errors += 1
            return
        counts.responses += 1
        counts.bytes_in += size
        latency = counts.latency.get(node_id)
        if latency is None:
            latency = counts.latency[node_id] = Histogram()
        (<Histogram> latency).record(seconds)

    def on_batch_acknowledged(self, batch):
        cdef int64_t records = batch.records
        cdef int64_t attempts = batch.attempts
        cdef int64_t size = batch.compressed_bytes
        self.produced_batches += 1
        self.produced_records += records
        self.bytes_sent += size
        self.bytes_raw += <int64_t> batch.bytes
        self.batch_sizes.record(size)
        self.count_retries(records, attempts)
        written_at = batch.written_at
        if written_at is not None:
            self.queue_times.record(<double> written_at - <double> batch.opened_at)

    def on_fetch_read(self, fetched):
        self.consumed_records += <int64_t> fetched.records
        self.consumed_bytes += <int64_t> fetched.bytes

    cpdef count_retries(self, int64_t records, int64_t attempts):
        if attempts > 1:
            self.retried_records += records * (attempts - 1)
