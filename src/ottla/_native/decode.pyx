# cython: language_level=3, freethreading_compatible=True
"""Fetched bytes to records and columns: one call for all batches of a partition.

`decode_fetch` scans (scan.c) and gives `Records`: lazy `Record` objects, or Arrow columns gathered into one block
of pooled memory (columns.c, arrow_export.c). Decompression is not here: it is a function that the caller passes in.

Invariant: every object that can reach bytes holds a reference to their owner. A `Record` holds its `Records`, which
hold the fetched buffer, the decompressed batches and the scan; an Arrow export holds the gathered block alone.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.pycapsule cimport PyCapsule_New
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from zlib import crc32

from ottla._native.memory cimport Memory, take
from ottla.errors import DecodeError

cdef extern from "crc32c.h" nogil:
    void crc32c_setup()

cdef extern from "batch.h" nogil:
    enum:
        BATCH_BASE_OFFSET
        BATCH_LENGTH
        BATCH_MAGIC
        LOG_OVERHEAD
        MESSAGE_CRC
        MESSAGE_ATTRIBUTES
        MESSAGE_TIMESTAMP
        SMALLEST_MESSAGE
        ATTRIBUTE_CODEC
        ATTRIBUTE_LOG_APPEND_TIME
    uint32_t load32(const uint8_t *p)
    uint64_t load64(const uint8_t *p)

cdef extern from "scan.h" nogil:
    cdef struct record:
        int64_t offset
        int64_t timestamp
        const uint8_t *key
        uint32_t value_at
        uint32_t headers_at
        int32_t key_length
        int32_t value_length
        uint32_t headers_and_flags
        int32_t leader_epoch
    uint32_t record_headers_and_flags(int32_t headers, int control, int timestamp_type)
    int32_t record_header_count(const record *r)
    int record_is_control(const record *r)
    int record_timestamp_type(const record *r)
    cdef struct aborted_transaction:
        int64_t producer_id
        int64_t first_offset
    cdef enum scan_status:
        SCAN_DONE
        SCAN_GO_ON
        SCAN_NEEDS_ROOM
        SCAN_COMPRESSED
        SCAN_OLD_MAGIC
        SCAN_BAD
    cdef struct scanned_batch:
        int64_t base_offset
        int64_t next_offset
        int32_t count
        int32_t attributes
        const uint8_t *records
        size_t records_size
        size_t size
    cdef struct scan:
        const uint8_t *data
        size_t size
        size_t position
        int64_t wanted_offset
        int check_crc
        int deliver_control
        int read_committed
        const aborted_transaction *aborted
        size_t aborted_count
        int64_t *aborting
        record *records
        size_t count
        size_t room
        int64_t next_offset
        uint64_t key_bytes
        uint64_t value_bytes
        uint64_t header_count
        scanned_batch batch
        const char *problem
    size_t scan_estimate(const scan *s)
    scan_status scan_batch(scan *s)
    scan_status scan_decompressed(scan *s, const uint8_t *data, size_t size)
    const uint8_t *scan_header(const uint8_t *p, const uint8_t *end, const uint8_t **key, int32_t *key_length,
                               const uint8_t **value, int32_t *value_length)

cdef extern from "columns.h" nogil:
    cdef enum column:
        COLUMN_COUNT
    cdef struct layout:
        column order[8]
        int count
        int64_t timestamp_factor
        const char *timestamp_format
        int nullable
    cdef struct run:
        size_t count
        size_t key_bytes
        size_t value_bytes
        size_t header_count
        size_t header_key_bytes
        size_t header_value_bytes
    cdef struct columns:
        pass
    void columns_measure(const scan *s, size_t first, size_t count, int with_headers, run *out)
    size_t columns_fit(const scan *s, size_t first, size_t most, size_t bytes)
    size_t columns_place(const run *r, const layout *l, size_t topic_length, uint8_t *block, columns *out)
    void columns_fill(const run *r, const layout *l, const char *topic, size_t topic_length, int32_t partition,
                      columns *out)

cdef extern from "arrow_export.h":
    cdef struct ArrowSchema:
        pass
    cdef struct ArrowArray:
        pass
    int arrow_export_schema(ArrowSchema *out, const layout *l)
    int arrow_export_columns(ArrowArray *out, const columns *c, const layout *l, int64_t rows, int64_t headers,
                             object owner)
    void arrow_schema_capsule_free(object capsule) noexcept
    void arrow_array_capsule_free(object capsule) noexcept

cdef extern from *:
    ctypedef void (*capsule_destructor "PyCapsule_Destructor")(object) noexcept

# Below this, giving the GIL away and waiting to get it back would cost more than the work (see checksums.pyx).
cdef enum:
    LARGE = 128 * 1024

# Offsets of a binary column are of 32 bits.
cdef uint64_t MOST_COLUMN_BYTES = 0x7FFFFFFF


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Record:
    """One record. Keys, values and headers are made into Python objects when they are first read."""

    cdef Records _records
    cdef const record *_record

    @property
    def topic(self):
        return self._records.topic

    @property
    def partition(self):
        return self._records.partition

    @property
    def offset(self):
        return self._record.offset

    @property
    def timestamp(self):
        """Milliseconds since 1970; -1 for the oldest messages, which have none."""
        return self._record.timestamp

    @property
    def timestamp_type(self):
        """0: when it was created, 1: when it was appended to the log, -1: there is no timestamp."""
        return record_timestamp_type(self._record)

    @property
    def leader_epoch(self):
        """The epoch of the leader that appended it; -1 where it is not known."""
        return self._record.leader_epoch

    @property
    def is_control(self):
        """Whether a broker wrote it, to mark the end of a transaction, say; only seen with `control`."""
        return record_is_control(self._record) != 0

    @property
    def key(self):
        if self._record.key_length < 0:
            return None
        return PyBytes_FromStringAndSize(<const char *> self._record.key, self._record.key_length)

    @property
    def value(self):
        """None is a tombstone."""
        if self._record.value_length < 0:
            return None
        return PyBytes_FromStringAndSize(
            <const char *> self._record.key + self._record.value_at, self._record.value_length
        )

    @property
    def headers(self):
        """A list of (name, bytes or None) pairs, in order; a name may occur more than once."""
        cdef const uint8_t *p = self._record.key + self._record.headers_at
        cdef const uint8_t *key
        cdef const uint8_t *value
        cdef int32_t key_length, value_length, i
        found = []
        for i in range(record_header_count(self._record)):
            # The scan has been here before and knows that the bytes are headers: no end is needed.
            p = scan_header(p, p + 0x7FFFFFFF, &key, &key_length, &value, &value_length)
            name = PyUnicode_DecodeUTF8(<const char *> key, key_length, "replace")
            content = None if value_length < 0 else PyBytes_FromStringAndSize(<const char *> value, value_length)
            found.append((name, content))
        return found

    def __repr__(self):
        return (
            f"Record({self.topic}[{self.partition}] offset={self.offset} timestamp={self.timestamp} "
            f"key={_shown(self.key)} value={_shown(self.value)} headers={self.headers!r})"
        )


def _shown(content):
    return repr(content) if content is None or len(content) <= 40 else f"<{len(content)} bytes>"


@cython.final
cdef class RecordIterator:
    cdef Records _records
    cdef size_t _next

    def __iter__(self):
        return self

    def __next__(self):
        if self._next >= self._records._scan.count:
            raise StopIteration
        record = self._records._record(self._next)
        self._next += 1
        return record


# Nothing that it holds can lead back to it. If the collector saw it, it would also drop the reference to the pinned
# buffer without releasing that, and a memoryview that is exported cannot go: a BufferError out of nowhere.
@cython.final
@cython.no_gc
cdef class Records:
    """The records of one partition's part of a fetch: iterate, index, or take as Arrow columns."""

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef scan _scan
    cdef Memory _table        # of struct record
    cdef Py_buffer _fetched   # pinned as long as this object lives
    cdef bint _pinned
    cdef list _decompressed   # what records point into, beside the fetched bytes
    cdef bytes _aborted

    def __dealloc__(self):
        free(self._scan.aborting)
        self._scan.aborting = NULL
        if self._pinned:
            PyBuffer_Release(&self._fetched)

    def __len__(self):
        return self._scan.count

    def __iter__(self):
        cdef RecordIterator iterator = RecordIterator.__new__(RecordIterator)
        iterator._records = self
        return iterator

    def __getitem__(self, Py_ssize_t index):
        cdef Py_ssize_t count = <Py_ssize_t> self._scan.count
        if index < 0:
            index += count
        if not 0 <= index < count:
            raise IndexError(f"there are {count} records")
        return self._record(<size_t> index)

    cdef Record _record(self, size_t index):
        cdef Record made = Record.__new__(Record)
        made._records = self
        made._record = &self._scan.records[index]
        return made

    @property
    def next_offset(self):
        """Where to fetch next: behind every batch that was read, delivered or not."""
        return self._scan.next_offset

    @property
    def bytes_read(self):
        """How much of the field was read; the rest is a truncated batch, or one that is damaged."""
        return self._scan.position

    def columns(self, *, timestamp_unit="ms", names=None, nullable=False, first=0, count=None):
        """The records as Arrow columns: an object with `__arrow_c_array__`.

        `names` are the columns that are wanted, in their order; others cost nothing. `first` and `count` choose
        rows. With `nullable` every field may be null, and a record without headers has null for an empty list.
        """
        if count is None:
            count = max(0, len(self) - first)
        if first < 0 or count < 0 or first + count > len(self):
            raise IndexError(f"rows {first} to {first + count} of {len(self)}")
        return Columns(self, _layout(timestamp_unit, names, nullable), first, count)

    def fitting(self, size_t first, *, size_t most, size_t bytes):
        """How many records from `first` on are no more than `most`, with keys and values of up to `bytes` bytes.

        One at least, however large it is; 0 at the end.
        """
        return columns_fit(&self._scan, first, most, bytes) if first < self._scan.count else 0

    def position_of(self, int64_t offset):
        """The index of the first record at `offset` or behind it."""
        cdef size_t low = 0, high = self._scan.count, middle
        while low < high:
            middle = (low + high) // 2
            if self._scan.records[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return low


cdef dict _UNITS = {"ms": (1, b"tsm:UTC"), "us": (1000, b"tsu:UTC"), "ns": (1000000, b"tsn:UTC")}
# In the order of enum column.
cdef tuple _NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
cdef dict _LAYOUTS = {}


@cython.final
cdef class Layout:
    """Which columns, and how: checked once, kept for every batch."""

    cdef layout _layout
    cdef bint _has_headers


cdef Layout _layout(timestamp_unit, names, nullable):
    asked = (timestamp_unit, None if names is None else tuple(names), bool(nullable))
    found = _LAYOUTS.get(asked)
    if found is not None:
        return found
    made = _make_layout(timestamp_unit, asked[1], nullable)
    if len(_LAYOUTS) < 64:
        _LAYOUTS[asked] = made
    return made


cdef Layout _make_layout(timestamp_unit, tuple names, bint nullable):
    if timestamp_unit not in _UNITS:
        raise ValueError(f"timestamp_unit must be one of {', '.join(_UNITS)}, not {timestamp_unit!r}")
    if names is None:
        names = _NAMES
    unknown = [name for name in names if name not in _NAMES]
    if unknown or len(set(names)) < len(names):
        raise ValueError(f"names must be some of {', '.join(_NAMES)}, each once, not {names!r}")
    cdef Layout made = Layout.__new__(Layout)
    cdef bytes timestamp_format
    made._layout.timestamp_factor, timestamp_format = _UNITS[timestamp_unit]
    made._layout.timestamp_format = timestamp_format  # one of _UNITS, which stay
    made._layout.nullable = nullable
    made._has_headers = "headers" in names
    for name in names:
        made._layout.order[made._layout.count] = <column> <int> _NAMES.index(name)
        made._layout.count += 1
    return made


@cython.final
cdef class Columns:
    """Columns in the layout of Arrow, in one block of pooled memory; read by pyarrow, polars, duckdb and others."""

    cdef Memory _block
    cdef columns _columns
    cdef Layout _layout
    cdef readonly int64_t num_rows
    cdef int64_t _headers

    def __init__(self, Records records not None, Layout layout not None, size_t first, size_t count):
        self._layout = layout
        cdef bytes topic = records.topic.encode()
        cdef const char *name = topic
        cdef size_t name_length = len(topic)
        cdef run taken
        columns_measure(&records._scan, first, count, layout._has_headers, &taken)
        cdef uint64_t most = max(taken.key_bytes, taken.value_bytes, taken.count * name_length)
        if max(most, taken.header_count, taken.header_key_bytes, taken.header_value_bytes) > MOST_COLUMN_BYTES:
            raise DecodeError(f"{records.topic}: more than 2 GiB in one column: fetch less at a time")
        cdef size_t size = columns_place(&taken, &layout._layout, name_length, NULL, &self._columns)
        self._block = take(size)
        columns_place(&taken, &layout._layout, name_length, self._block.data, &self._columns)
        self.num_rows = <int64_t> taken.count
        self._headers = <int64_t> taken.header_count
        cdef int32_t partition = records.partition
        if size > LARGE:
            with nogil:
                columns_fill(&taken, &layout._layout, name, name_length, partition, &self._columns)
        else:
            columns_fill(&taken, &layout._layout, name, name_length, partition, &self._columns)

    def __arrow_c_schema__(self):
        cdef ArrowSchema *schema = <ArrowSchema *> malloc(sizeof(ArrowSchema))
        if schema == NULL or arrow_export_schema(schema, &self._layout._layout) < 0:
            free(schema)
            raise MemoryError
        return PyCapsule_New(schema, "arrow_schema", <capsule_destructor> arrow_schema_capsule_free)

    def __arrow_c_array__(self, requested_schema=None):
        """The Arrow PyCapsule interface. `requested_schema` is a wish, and this one is not granted."""
        cdef ArrowArray *array = <ArrowArray *> malloc(sizeof(ArrowArray))
        if array == NULL or arrow_export_columns(
            array, &self._columns, &self._layout._layout, self.num_rows, self._headers, self._block
        ) < 0:
            free(array)
            raise MemoryError
        return self.__arrow_c_schema__(), PyCapsule_New(
            array, "arrow_array", <capsule_destructor> arrow_array_capsule_free
        )


cdef int _make_room(Records records, size_t more) except -1:
    """Enlarge the table of records; twice as large each time, so that a fetch of many batches copies little."""
    cdef scan *s = &records._scan
    cdef size_t wanted = max(s.count + more, 2 * s.room)
    cdef Memory table = take(wanted * sizeof(record))
    if s.count:
        memcpy(table.data, s.records, s.count * sizeof(record))
    records._table = table
    s.records = <record *> table.data
    s.room = wanted
    return 0


cdef scan_status _scan_on(scan *s) noexcept nogil:
    """As far as the scan gets by itself."""
    cdef scan_status status = SCAN_GO_ON
    while status == SCAN_GO_ON:
        status = scan_batch(s)
    return status


def decode_fetch(data, *, str topic not None, int32_t partition, decompress, int64_t offset=0, aborted=None,
                 bint check_crc=True, bint control=False, size_t max_decompressed=0x7FFFFFFF):
    """All records of one partition's `records` field that a consumer at `offset` is to see.

    `aborted`, a list of (producer id, first offset) pairs as the Fetch response has them, means read_committed.
    `decompress(codec, data, limit)` gives the records of a compressed batch, or raises DecodeError; all batches
    together may grow to `max_decompressed` bytes. With `control`, control records too.

    A damaged batch raises DecodeError when it is the first. Behind others, reading stops before it: they are
    delivered, and the next fetch begins with the damaged one.
    """
    cdef Records records = Records.__new__(Records)
    cdef scan *s = &records._scan
    records.topic = topic
    records.partition = partition
    records._decompressed = []
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"data must be a bytes-like object, not {type(data).__name__}")
    PyObject_GetBuffer(data, &records._fetched, PyBUF_SIMPLE)
    records._pinned = True
    s.data = <const uint8_t *> records._fetched.buf
    s.size = <size_t> records._fetched.len
    s.wanted_offset = s.next_offset = offset
    s.check_crc = check_crc
    s.deliver_control = control
    if aborted is not None:
        _take_aborted(records, aborted)
    _make_room(records, scan_estimate(s))
    try:
        _scan_all(records, decompress, max_decompressed)
    except DecodeError as error:
        if s.position == 0:
            raise DecodeError(f"{topic}[{partition}] at offset {_offset_of(s)}: {error}") from None
    return records


cdef int64_t _offset_of(scan *s) noexcept:
    """The offset that the batch under the scan claims, for an error message."""
    return <int64_t> load64(s.data + s.position) if s.size - s.position >= 8 else s.next_offset


cdef int _take_aborted(Records records, aborted) except -1:
    cdef scan *s = &records._scan
    cdef size_t i = 0
    pairs = sorted(aborted, key=_first_offset)
    s.read_committed = 1
    s.aborted_count = len(pairs)
    records._aborted = bytes(len(pairs) * sizeof(aborted_transaction))
    cdef aborted_transaction *found = <aborted_transaction *> <char *> records._aborted
    for producer_id, first_offset in pairs:
        found[i].producer_id = producer_id
        found[i].first_offset = first_offset
        i += 1
    s.aborted = found
    s.aborting = <int64_t *> malloc((s.aborted_count + 1) * sizeof(int64_t))
    if s.aborting == NULL:
        raise MemoryError
    return 0


def _first_offset(pair):
    return pair[1]


cdef int _scan_all(Records records, decompress, size_t limit) except -1:
    cdef scan *s = &records._scan
    cdef scan_status status
    while True:
        if s.size - s.position > LARGE:
            with nogil:
                status = _scan_on(s)
        else:
            status = _scan_on(s)
        if status == SCAN_DONE:
            return 0
        if status == SCAN_NEEDS_ROOM:
            _make_room(records, <size_t> s.batch.count)
        elif status == SCAN_COMPRESSED:
            limit -= _scan_compressed(records, decompress, limit)
        elif status == SCAN_OLD_MAGIC:
            limit -= _scan_old_message(records, decompress, limit)
        else:
            raise DecodeError(s.problem.decode())


cdef size_t _scan_compressed(Records records, decompress, size_t limit) except? 0:
    """Decompress the batch under the scan and go on in it; how many bytes it grew to."""
    cdef scan *s = &records._scan
    cdef scan_status status = SCAN_NEEDS_ROOM
    cdef Py_buffer content
    codec = s.batch.attributes & ATTRIBUTE_CODEC
    plain = decompress(
        codec, PyMemoryView_FromMemory(<char *> s.batch.records, s.batch.records_size, PyBUF_READ), limit
    )
    PyObject_GetBuffer(plain, &content, PyBUF_SIMPLE)
    try:
        while status == SCAN_NEEDS_ROOM:
            # The number comes from the batch, and is bounded by what was decompressed before it is believed.
            if s.room - s.count < <size_t> s.batch.count <= <size_t> content.len // 7:
                _make_room(records, <size_t> s.batch.count)
            if content.len > LARGE:
                with nogil:
                    status = scan_decompressed(s, <const uint8_t *> content.buf, content.len)
            else:
                status = scan_decompressed(s, <const uint8_t *> content.buf, content.len)
        if status == SCAN_BAD:
            raise DecodeError(s.problem.decode())
        records._decompressed.append(plain)
        return <size_t> content.len
    finally:
        PyBuffer_Release(&content)


include "message_sets.pxi"

crc32c_setup()
