# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""What compaction does per record: offset_map.c and compact_records.c from Python.

Headers of batches, codecs, transactions and horizons are broker/log/compaction.py; here are decompressed records.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ottla.errors import DecodeError

cdef extern from "offset_map.h" nogil:
    struct offset_slot:
        pass
    struct offset_map:
        size_t capacity
        size_t used
    void siphash128(const uint64_t *secret, const uint8_t *data, size_t size, uint64_t *hash)
    void offset_map_start(offset_map *, uint64_t, uint64_t)
    void offset_map_end(offset_map *)
    int offset_map_resize(offset_map *, size_t)
    void offset_map_move(offset_map *, size_t)
    int64_t offset_map_get(const offset_map *, const uint8_t *key, size_t size)

cdef extern from "compact_records.h" nogil:
    struct record_run:
        const uint8_t *data
        size_t size
        int32_t count
        int64_t base_offset
        int64_t base_timestamp
        int32_t failed
    struct record_choice:
        int64_t latest_offset
        int drops_tombstones
        int32_t kept
        int has_tombstones
        int64_t first_timestamp
        int64_t max_timestamp
    const char *map_records(offset_map *, record_run *, int64_t)
    const char *choose_records(const offset_map *, record_run *, record_choice *, uint8_t *)
    size_t write_records(const record_run *, const uint8_t *, int64_t, const int64_t *, uint8_t *)

SLOT_SIZE = sizeof(offset_slot)

cdef enum:
    SMALLEST_CAPACITY = 1024
    # Slots of a table that has grown, with each record: it is through long before the next growth, in half as many
    # records as there were slots.
    MOVED_WITH_EACH = 2


def keyed_hash(bytes secret not None, data):
    """128 bits as two numbers: for the test with known answers."""
    cdef Py_buffer view
    cdef uint64_t words[2]
    cdef uint64_t found[2]
    words[0], words[1] = _words(secret)
    take(data, &view)
    siphash128(words, <const uint8_t *> view.buf, <size_t> view.len, found)
    PyBuffer_Release(&view)
    return found[0], found[1]


cdef tuple _words(bytes secret):
    if len(secret) != 16:
        raise ValueError(f"a secret of the offset map has 16 bytes, not {len(secret)}")
    return int.from_bytes(secret[:8], "little"), int.from_bytes(secret[8:], "little")


@cython.final
cdef class OffsetMap:
    """The last offset of each key, for as many keys as `room` bytes hold at the load factor.

    Its memory grows with the keys that come. `secret`, 16 bytes, keeps two keys from being taken for one: draw them
    anew for each map.
    """

    cdef offset_map map
    cdef size_t largest_capacity
    cdef readonly object limit

    def __cinit__(self, Py_ssize_t room, double load_factor, bytes secret not None):
        first, second = _words(secret)
        offset_map_start(&self.map, first, second)

    def __init__(self, Py_ssize_t room, double load_factor, bytes secret not None):
        self.largest_capacity = <size_t> max(room // <Py_ssize_t> sizeof(offset_slot), 1)
        self.limit = int(self.largest_capacity * load_factor)

    def __dealloc__(self):
        offset_map_end(&self.map)

    def __len__(self):
        return self.map.used

    def has_room_for(self, int32_t count):
        """Whether that many more keys are within the limit. An empty map takes any batch, or there were no progress."""
        return self.map.used == 0 or self.map.used + <size_t> max(count, 0) <= <size_t> self.limit

    def get(self, bytes key not None):
        """-1 for a key that is not there."""
        return offset_map_get(&self.map, <const uint8_t *> <const char *> key, <size_t> len(key))

    def add(self, records, int32_t count, int64_t base_offset, int64_t from_offset):
        """Enters the keys of `count` records, those from an offset on; DecodeError where they are damaged."""
        cdef Py_buffer view
        cdef record_run run
        cdef const char *problem
        take(records, &view)
        try:
            check_count(count, &view)
            self.reserve(count)
            fill(&run, &view, count, base_offset, 0)
            with nogil:
                offset_map_move(&self.map, MOVED_WITH_EACH * <size_t> max(count, 1))
                problem = map_records(&self.map, &run, from_offset)
        finally:
            PyBuffer_Release(&view)
        if problem != NULL:
            raise damaged(&run, problem)

    cdef int reserve(self, int32_t count) except -1:
        """Keeps a quarter of the slots free, or as many as the load factor says where there are no more to be had."""
        cdef size_t needed = self.map.used + <size_t> max(count, 0) + 1
        cdef size_t wanted = needed + needed // 3
        cdef size_t capacity = self.map.capacity
        if wanted <= capacity:
            return 0
        capacity = min(max(2 * capacity, wanted, <size_t> SMALLEST_CAPACITY), self.largest_capacity)
        capacity = max(capacity, needed)
        if capacity > self.map.capacity and offset_map_resize(&self.map, capacity) < 0:
            raise MemoryError
        return 0


@cython.final
cdef class KeptRecords:
    """Which records of a batch stay, and what is to be known of them."""

    cdef object records
    cdef bytearray keeps
    cdef record_run run
    cdef record_choice choice

    @property
    def count(self):
        return self.choice.kept

    @property
    def has_tombstones(self):
        return self.choice.has_tombstones != 0

    @property
    def first_timestamp(self):
        return self.choice.first_timestamp

    @property
    def max_timestamp(self):
        return self.choice.max_timestamp

    def encoded(self, int64_t base_timestamp, timestamp=None):
        """The records that stay, under another base timestamp; with `timestamp` each of them has that one."""
        cdef Py_buffer view
        cdef int64_t own = 0 if timestamp is None else timestamp
        cdef const int64_t *given = NULL if timestamp is None else &own
        cdef const uint8_t *keeps = <const uint8_t *> <char *> self.keeps
        cdef bytearray data
        take(self.records, &view)
        try:
            self.run.data = <const uint8_t *> view.buf
            if <size_t> view.len != self.run.size:
                raise BufferError("the records have been resized since they were looked at")
            data = bytearray(write_records(&self.run, keeps, base_timestamp, given, NULL))
            write_records(&self.run, keeps, base_timestamp, given, <uint8_t *> <char *> data)
        finally:
            PyBuffer_Release(&view)
        return data


def choose(OffsetMap offsets not None, records, int32_t count, int64_t base_offset, int64_t base_timestamp, *,
           int64_t latest_offset, bint drops_tombstones):
    """Which of `count` records stay: the last of each key, as far as the map reaches, and all behind that.

    `latest_offset` is where the map ends. Tombstones stay unless `drops_tombstones`; records without a key do not.
    DecodeError where the records are damaged.
    """
    cdef Py_buffer view
    cdef KeptRecords kept = KeptRecords.__new__(KeptRecords)
    cdef const char *problem
    cdef uint8_t *keeps
    take(records, &view)
    try:
        check_count(count, &view)
        kept.records = records
        kept.keeps = bytearray(max(count, 0))
        keeps = <uint8_t *> <char *> kept.keeps
        fill(&kept.run, &view, count, base_offset, base_timestamp)
        kept.choice.latest_offset = latest_offset
        kept.choice.drops_tombstones = drops_tombstones
        with nogil:
            problem = choose_records(&offsets.map, &kept.run, &kept.choice, keeps)
    finally:
        PyBuffer_Release(&view)
    if problem != NULL:
        raise damaged(&kept.run, problem)
    return kept


cdef int check_count(int32_t count, Py_buffer *view) except -1:
    """Each record has at least a byte: a count beyond that is damage, and no reason to ask for memory."""
    if count > view.len:
        raise DecodeError(f"{view.len} bytes are no {count} records")
    return 0


cdef void fill(record_run *run, Py_buffer *view, int32_t count, int64_t base_offset, int64_t base_timestamp) noexcept:
    run.data = <const uint8_t *> view.buf
    run.size = <size_t> view.len
    run.count = count
    run.base_offset = base_offset
    run.base_timestamp = base_timestamp


cdef object damaged(record_run *run, const char *problem):
    return DecodeError(f"record {run.failed} of {run.count}: {problem.decode()}")


cdef int take(object data, Py_buffer *view) except -1:
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"data must be a bytes-like object, not {type(data).__name__}")
    PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    return 0
