# cython: language_level=3, freethreading_compatible=True
"""A batch of magic 2: its header, read once, and a leader's look at an ordinary one.

A broker makes one `Batch` of each batch that a producer sends, and hands it from the handler to the log, its segment
and its producers. `accept` is all that a leader does with an ordinary batch, in one call: it checks header, checksum
and records, and writes offsets, leader epoch and timestamps. It says yes, or changes nothing; why not, and whatever is
not ordinary, is in broker/log/validation.py and rewrite.py, with the errors of Kafka.

`find_batch` and `last_batch` walk over the batches of a log that lie in one piece of memory; broker/log/batch.py goes
from piece to piece. Where fields lie is in batch.h, how records are read in inspect_records.c.

Invariants: no byte outside of the given memory is read, whatever a header claims; a Batch says what its memory says.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from ottla.errors import DecodeError

cdef extern from "crc32c.h" nogil:
    void crc32c_setup()
    uint32_t crc32c(uint32_t value, const void *data, size_t length)

cdef extern from "inspect_records.h" nogil:
    enum inspect_status:
        INSPECT_DONE
    struct inspection:
        int32_t count
        int64_t base_timestamp
        int64_t earliest
        int64_t latest
        int keys_required
        int offsets_are_dense
        int64_t max_timestamp
    void inspect_start(inspection *, const uint8_t *data, size_t size)
    inspect_status inspect_go_on(inspection *)

cdef extern from "batch.h" nogil:
    enum:
        BATCH_BASE_OFFSET
        BATCH_LENGTH
        BATCH_LEADER_EPOCH
        BATCH_MAGIC
        BATCH_CRC
        BATCH_ATTRIBUTES
        BATCH_LAST_OFFSET_DELTA
        BATCH_BASE_TIMESTAMP
        BATCH_MAX_TIMESTAMP
        BATCH_PRODUCER_ID
        BATCH_PRODUCER_EPOCH
        BATCH_BASE_SEQUENCE
        BATCH_COUNT
        BATCH_OVERHEAD
        LOG_OVERHEAD
        ATTRIBUTE_CODEC
        ATTRIBUTE_LOG_APPEND_TIME
        ATTRIBUTE_TRANSACTIONAL
        ATTRIBUTE_CONTROL
        ATTRIBUTE_DELETE_HORIZON
    uint32_t load16(const uint8_t *)
    uint32_t load32(const uint8_t *)
    int64_t load64(const uint8_t *)
    void store16(uint8_t *, uint32_t)
    void store32(uint8_t *, uint32_t)
    void store64(uint8_t *, int64_t)

cdef enum:
    MAGIC = 2
    NO_CODEC = 0
    LARGEST_CODEC = 4
    PRODUCERS_CODEC = -1
    NO_SEQUENCE = -1
    LARGEST_SEQUENCE = 0x7FFFFFFF
    KNOWN_ATTRIBUTES = (
        ATTRIBUTE_CODEC | ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL | ATTRIBUTE_DELETE_HORIZON
    )
    # As in checksums.pyx: what takes longer than about 100 us gives the GIL away.
    LARGE = 128 * 1024


@cython.final
cdef class AppendRules:
    """What a topic's configuration demands of the batches that its leaders append."""

    cdef int64_t max_size
    cdef int64_t before_max_ms
    cdef int64_t after_max_ms
    cdef bint append_time
    cdef bint keys_required
    cdef int codec

    def __init__(self, *, int64_t max_size, int64_t before_max_ms, int64_t after_max_ms, bint append_time,
                 bint keys_required, int codec=PRODUCERS_CODEC):
        """`codec` is -1 where the batch keeps that of its producer."""
        if before_max_ms < 0 or after_max_ms < 0:
            raise ValueError(f"timestamps cannot be within {before_max_ms} ms before and {after_max_ms} ms after")
        self.max_size = max_size
        self.before_max_ms = before_max_ms
        self.after_max_ms = after_max_ms
        self.append_time = append_time
        self.keys_required = keys_required
        self.codec = codec


@cython.final
@cython.freelist(16)
cdef class Batch:
    """The header, field by field; `data` is the memory of the whole batch, where it was read as a whole."""

    cdef readonly object data
    cdef readonly int64_t base_offset
    cdef readonly int32_t length
    cdef readonly int32_t leader_epoch
    cdef readonly int8_t magic
    cdef readonly uint32_t crc
    cdef readonly int16_t attributes
    cdef readonly int32_t last_offset_delta
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int16_t producer_epoch
    cdef readonly int32_t base_sequence
    cdef readonly int32_t record_count

    def __init__(self):
        raise TypeError("a Batch is read: with read_header() or whole_batch()")

    def __repr__(self):
        return (
            f"<Batch {self.base_offset} to {self.last_offset}, {self.size} bytes, "
            f"producer {self.producer_id}/{self.producer_epoch}/{self.base_sequence}>"
        )

    @property
    def size(self):
        return <int64_t> self.length + LOG_OVERHEAD

    @property
    def last_offset(self):
        return self.offset_at(self.last_offset_delta)

    @property
    def next_offset(self):
        return self.offset_at(<int64_t> self.last_offset_delta + 1)

    @property
    def last_sequence(self):
        """Behind the largest sequence comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (<int64_t> self.base_sequence + self.last_offset_delta) & LARGEST_SEQUENCE

    @property
    def has_producer_id(self):
        return self.producer_id > -1

    @property
    def codec(self):
        return self.attributes & ATTRIBUTE_CODEC

    @property
    def is_transactional(self):
        return (self.attributes & ATTRIBUTE_TRANSACTIONAL) != 0

    @property
    def is_control(self):
        return (self.attributes & ATTRIBUTE_CONTROL) != 0

    @property
    def has_append_time(self):
        return (self.attributes & ATTRIBUTE_LOG_APPEND_TIME) != 0

    cdef object offset_at(self, int64_t delta):
        # Only a damaged header has offsets beyond 64 bits; a log that compares them has to see how large they are.
        if -(1LL << 62) < self.base_offset < (1LL << 62):
            return self.base_offset + delta
        return <object> self.base_offset + delta

    cdef void read(self, const uint8_t *at) noexcept:
        self.base_offset = load64(at + BATCH_BASE_OFFSET)
        self.length = <int32_t> load32(at + BATCH_LENGTH)
        self.leader_epoch = <int32_t> load32(at + BATCH_LEADER_EPOCH)
        self.magic = <int8_t> at[BATCH_MAGIC]
        self.crc = load32(at + BATCH_CRC)
        self.attributes = <int16_t> load16(at + BATCH_ATTRIBUTES)
        self.last_offset_delta = <int32_t> load32(at + BATCH_LAST_OFFSET_DELTA)
        self.base_timestamp = load64(at + BATCH_BASE_TIMESTAMP)
        self.max_timestamp = load64(at + BATCH_MAX_TIMESTAMP)
        self.producer_id = load64(at + BATCH_PRODUCER_ID)
        self.producer_epoch = <int16_t> load16(at + BATCH_PRODUCER_EPOCH)
        self.base_sequence = <int32_t> load32(at + BATCH_BASE_SEQUENCE)
        self.record_count = <int32_t> load32(at + BATCH_COUNT)

    cdef bint has_clients_form(self, AppendRules rules) noexcept:
        """What no client may get wrong, and what makes a batch ordinary: it keeps its codec and has its own times."""
        cdef int codec = self.attributes & ATTRIBUTE_CODEC
        return (
            self.base_offset == 0
            and <int64_t> self.length + LOG_OVERHEAD <= rules.max_size
            and self.record_count > 0
            and self.last_offset_delta == self.record_count - 1
            and not self.attributes & (ATTRIBUTE_CONTROL | ATTRIBUTE_LOG_APPEND_TIME)
            and (self.producer_id <= -1 or self.base_sequence >= 0)
            and codec <= LARGEST_CODEC
            and (rules.codec == PRODUCERS_CODEC or rules.codec == codec)
        )

    def accept(self, AppendRules rules not None, int64_t base_offset, int32_t leader_epoch, int64_t now_ms,
               decompress):
        """Whether the batch of a client is ordinary and in order; then it has its offsets, epoch and timestamps.

        `decompress(codec, payload)` gives the records of a compressed batch. Where the answer is no, nothing has
        changed. Memory that must not be written to is copied, and `data` is the copy.
        """
        cdef Py_buffer whole
        cdef inspection found
        if self.data is None or not self.has_clients_form(rules):
            return False
        found.count = self.record_count
        found.base_timestamp = self.base_timestamp
        found.earliest, found.latest = INT64_MIN, INT64_MAX
        if not rules.append_time:
            found.earliest = saturated_difference(now_ms, rules.before_max_ms)
            found.latest = saturated_sum(now_ms, rules.after_max_ms)
        found.keys_required = rules.keys_required
        PyObject_GetBuffer(self.data, &whole, PyBUF_SIMPLE)
        try:
            # Its owner may have resized the memory since the header was read.
            if whole.len != <int64_t> self.length + LOG_OVERHEAD or not has_checksum(&whole, self.crc):
                return False
            if not self.inspect(&whole, &found, decompress):
                return False
            if not whole.readonly:
                self.write(<uint8_t *> whole.buf, rules, &found, base_offset, leader_epoch, now_ms)
                return True
        finally:
            PyBuffer_Release(&whole)
        copy = bytearray(self.data)
        self.write(<uint8_t *> <char *> copy, rules, &found, base_offset, leader_epoch, now_ms)
        self.data = copy
        return True

    cdef bint inspect(self, Py_buffer *whole, inspection *found, decompress) except -1:
        """Whether every record is in order, and has the offset that Kafka would give it in a compressed batch."""
        cdef int codec = self.attributes & ATTRIBUTE_CODEC
        cdef Py_buffer plain
        cdef bint passed
        if codec == NO_CODEC:
            return has_records(<const uint8_t *> whole.buf + BATCH_OVERHEAD, whole.len - BATCH_OVERHEAD, found)
        try:
            records = decompress(codec, memoryview(self.data)[BATCH_OVERHEAD:])
        except DecodeError:
            return False
        take(records, &plain)
        passed = has_records(<const uint8_t *> plain.buf, plain.len, found)
        PyBuffer_Release(&plain)
        return passed and found.offsets_are_dense != 0

    cdef void write(self, uint8_t *at, AppendRules rules, inspection *found, int64_t base_offset,
                    int32_t leader_epoch, int64_t now_ms) noexcept:
        """Offsets and epoch lie before the checksum's range; timestamps that change cost a new checksum."""
        cdef int kind = ATTRIBUTE_LOG_APPEND_TIME if rules.append_time else 0
        cdef int64_t max_timestamp = now_ms if rules.append_time else found.max_timestamp
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        store64(at + BATCH_BASE_OFFSET, base_offset)
        store32(at + BATCH_LEADER_EPOCH, <uint32_t> leader_epoch)
        if self.attributes & ATTRIBUTE_LOG_APPEND_TIME == kind and self.max_timestamp == max_timestamp:
            return
        self.attributes = <int16_t> (self.attributes & KNOWN_ATTRIBUTES | kind)
        self.max_timestamp = max_timestamp
        store16(at + BATCH_ATTRIBUTES, <uint32_t> self.attributes)
        store64(at + BATCH_MAX_TIMESTAMP, max_timestamp)
        self.crc = crc32c(
            0, at + BATCH_ATTRIBUTES, <size_t> (<int64_t> self.length + LOG_OVERHEAD - BATCH_ATTRIBUTES)
        )
        store32(at + BATCH_CRC, self.crc)


cdef int64_t saturated_sum(int64_t left, int64_t right) noexcept:
    """`right` is not negative: a config that limits an age."""
    return INT64_MAX if left > INT64_MAX - right else left + right


cdef int64_t saturated_difference(int64_t left, int64_t right) noexcept:
    return INT64_MIN if left < INT64_MIN + right else left - right


cdef bint has_checksum(Py_buffer *whole, uint32_t expected) noexcept:
    cdef const uint8_t *start = <const uint8_t *> whole.buf + BATCH_ATTRIBUTES
    cdef size_t size = <size_t> (whole.len - BATCH_ATTRIBUTES)
    cdef uint32_t found
    if size > LARGE:
        with nogil:
            found = crc32c(0, start, size)
    else:
        found = crc32c(0, start, size)
    return found == expected


cdef bint has_records(const uint8_t *records, Py_ssize_t size, inspection *found) noexcept:
    cdef inspect_status status
    inspect_start(found, records, <size_t> size)
    if size > LARGE:
        with nogil:
            status = inspect_go_on(found)
    else:
        status = inspect_go_on(found)
    return status == INSPECT_DONE


cdef int take(object data, Py_buffer *view) except -1:
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"data must be a bytes-like object, not {type(data).__name__}")
    PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    return 0


def read_header(data, Py_ssize_t position=0):
    """The header at `position`, unchecked; all of it must be there."""
    cdef Py_buffer view
    cdef Batch batch
    take(data, &view)
    try:
        if position < 0 or view.len - position < BATCH_OVERHEAD:
            raise DecodeError(f"{view.len} bytes have no room for the header of a batch at {position}")
        batch = Batch.__new__(Batch)
        batch.read(<const uint8_t *> view.buf + position)
    finally:
        PyBuffer_Release(&view)
    return batch


def whole_batch(data):
    """The one batch of magic 2 that `data` consists of, to the last byte; None if it is anything else."""
    cdef Py_buffer view
    cdef Batch batch
    cdef const uint8_t *at
    take(data, &view)
    try:
        at = <const uint8_t *> view.buf
        if view.len < BATCH_OVERHEAD or at[BATCH_MAGIC] != MAGIC:
            return None
        if <int64_t> <int32_t> load32(at + BATCH_LENGTH) + LOG_OVERHEAD != view.len:
            return None
        batch = Batch.__new__(Batch)
        batch.read(at)
        batch.data = data
    finally:
        PyBuffer_Release(&view)
    return batch


cdef struct walk:
    # The batch that the walk has come to: where it begins, how long it is, the first and the last of its offsets.
    int64_t position
    int64_t size
    int64_t base_offset
    int64_t last_offset


cdef bint is_header_there(const walk *at, int64_t available) noexcept:
    return available - at.position >= BATCH_OVERHEAD


cdef bint read_size_and_offsets(walk *at, const uint8_t *data, int64_t left) noexcept:
    """Reads the header at `position`; whether the batch is whole."""
    cdef const uint8_t *header = data + at.position
    at.size = <int64_t> <int32_t> load32(header + BATCH_LENGTH) + LOG_OVERHEAD
    if at.size < BATCH_OVERHEAD or at.size > left - at.position:
        return False
    at.base_offset = load64(header + BATCH_BASE_OFFSET)
    # Offsets of a log have 63 bits. Those of a damaged one may be anything, but no overflow.
    at.last_offset = <int64_t> (
        <uint64_t> at.base_offset + <uint64_t> <int64_t> <int32_t> load32(header + BATCH_LAST_OFFSET_DELTA)
    )
    return True


def find_batch(data, int64_t left, int64_t offset):
    """(where it begins, size, base offset, last offset) of the first batch that ends at `offset` or behind it.

    `data` begins with a batch and may end within one, of which the log has `left` bytes in all. A size of 0 says to go on
    from there with other memory, a size of -1 that there the whole batches end.
    """
    cdef Py_buffer view
    cdef walk at
    at.position = 0
    take(data, &view)
    try:
        while is_header_there(&at, min(<int64_t> view.len, left)):
            if not read_size_and_offsets(&at, <const uint8_t *> view.buf, left):
                return at.position, -1, 0, 0
            if at.last_offset >= offset:
                return at.position, at.size, at.base_offset, at.last_offset
            at.position += at.size
    finally:
        PyBuffer_Release(&view)
    return at.position, 0, 0, 0


def last_batch(data, int64_t left):
    """As `find_batch`, of the last whole batch whose header is in `data`; a size of 0 says that there is none."""
    cdef Py_buffer view
    cdef walk at
    cdef walk last
    last.position = last.size = last.base_offset = last.last_offset = 0
    at.position = 0
    take(data, &view)
    try:
        while is_header_there(&at, min(<int64_t> view.len, left)):
            if not read_size_and_offsets(&at, <const uint8_t *> view.buf, left):
                break
            last = at
            at.position += at.size
    finally:
        PyBuffer_Release(&view)
    return last.position, last.size, last.base_offset, last.last_offset


crc32c_setup()
