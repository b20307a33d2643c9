# cython: language_level=3, freethreading_compatible=True, auto_pickle=False
"""Arrow columns into record batches.

Whatever exports Arrow's C data interface is read in place (`arrow_import.pxi`, `arrow_input.c`). The loops over the
rows are plain C (`distribute.c`) and run without the GIL; here is what lies between the two: options, errors, memory.

A table that is too large to be encoded in one go is imported once, as `Rows`, which say how to cut it by what each
row takes.

Invariants: what was imported is released on every path and not before the last row was read; and an error leaves
nothing behind, since all that can be wrong is found before the first batch is made.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memset

from ottla._native.accumulator cimport Accumulator
from ottla._native.deliveries cimport Budget, Waiting
from ottla._native.memory cimport Memory, take
from ottla._native.outgoing cimport EncodedBatch, new_batch
from ottla._native.record_buffer cimport (
    Settings, bytes_full, check_open, monotonic_now, never_fits, records_full, too_large,
)

from ottla._native.outgoing import EncodedBatch as EncodedBatch
from ottla.errors import NoSuchPartitionError, RecordTooLargeError

cdef extern from "distribute.h" nogil:
    enum:
        BATCH_OVERHEAD
    struct ArrowSchema:
        const char *format
        const char *name
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept
    struct ArrowArray:
        int64_t length
        int64_t offset
        ArrowArray **children
        void (*release)(ArrowArray *) noexcept
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept
        const char *(*get_last_error)(ArrowArrayStream *) noexcept

    struct column_t "column":
        pass
    struct time_column_t "time_column":
        pass
    struct header_column_t "header_column":
        pass
    struct segment_t "segment":
        int64_t length
        column_t rows
        column_t key
        column_t value
        column_t partition
        time_column_t timestamp
        header_column_t headers
    int bytes_column(column_t *, const ArrowSchema *, const ArrowArray *, int64_t parent)
    int partition_column(column_t *, const ArrowSchema *, const ArrowArray *, int64_t parent)
    int time_column(time_column_t *, const ArrowSchema *, const ArrowArray *, int64_t parent)
    int header_column(header_column_t *, const ArrowSchema *, const ArrowArray *, int64_t parent)
    void row_column(column_t *, const ArrowArray *, int64_t parent)

    enum plan_error:
        PLAN_OK
        PLAN_NO_MEMORY
        PLAN_ROW_IS_NULL
        PLAN_NO_SUCH_PARTITION
        PLAN_NEGATIVE_PARTITION
        PLAN_NO_PARTITION
        PLAN_TIMESTAMP_RANGE
        PLAN_TIMESTAMP_NEGATIVE
        PLAN_HEADER_IS_NULL
        PLAN_HEADER_NO_KEY
        PLAN_RECORD_TOO_LARGE
        PLAN_RECORD_NEVER_FITS
    struct plan_options:
        int32_t partitions
        int32_t unkeyed
        int ignore_keys
        size_t batch_size
        size_t max_record_size
        int64_t now
    struct placement:
        pass
    struct planned_batch:
        int64_t base_timestamp
        int64_t max_timestamp
        size_t size
        int32_t partition
        int32_t count
        uint8_t *data
        int32_t *rows
        uint32_t crc
    struct plan_t "plan":
        placement *placements
        planned_batch *batches
        int32_t count
        int64_t row
        int64_t number
    struct slice_t "slice":
        int64_t first
        int64_t count
        size_t size
    struct slicing_t "slicing":
        size_t most_bytes
        int64_t most_rows
        size_t buffer
        slice_t *slices
        int64_t count
        int64_t row
        int64_t number
    plan_error measure_rows(slicing_t *, const segment_t *, int32_t count, const plan_options *)
    bint all_name_partitions(const segment_t *, int32_t count)
    int32_t select_rows(segment_t *selected, const segment_t *, int64_t first, int64_t count)
    plan_error plan_rows(plan_t *, const segment_t *, int32_t count, const plan_options *)
    void write_rows(plan_t *, const segment_t *, int32_t count, int64_t now)
    void plan_free(plan_t *)

cdef extern from "writer.h":
    void writer_setup()

# Fewer rows, or fewer bytes, are done in about 100 us, and giving the GIL away would not pay.
cdef enum:
    MANY_ROWS = 2048
    MANY_BYTES = 256 * 1024

include "arrow_import.pxi"


cdef object row_failure(plan_error error, int64_t row, int64_t number, plan_options *options, buffer, topic):
    where = f"row {row}"
    if error == PLAN_NO_MEMORY:
        return MemoryError("no memory to plan the batches")
    if error == PLAN_ROW_IS_NULL:
        return ValueError(f"{where} is null as a whole; a tombstone is a row whose value is null")
    if error == PLAN_NO_SUCH_PARTITION:
        return NoSuchPartitionError(
            topic=topic, partition=number, partitions=options.partitions, detail=f"In the table it is {where}."
        )
    if error == PLAN_NEGATIVE_PARTITION:
        return ValueError(
            f"{where} is for partition {number}, and there are none below 0; null is for a row that goes where its "
            "key says"
        )
    if error == PLAN_NO_PARTITION and options.ignore_keys:
        return ValueError(f"{where} names no partition, keys are ignored, and unkeyed_partition is not given")
    if error == PLAN_NO_PARTITION:
        return ValueError(f"{where} has neither partition nor key, and unkeyed_partition is not given")
    if error == PLAN_TIMESTAMP_RANGE:
        return ValueError(f"{where} has a timestamp that does not fit into 64 bits of milliseconds")
    if error == PLAN_TIMESTAMP_NEGATIVE:
        return ValueError(f"{where} has a timestamp before 1970 ({number} ms), which Kafka has no use for")
    if error == PLAN_HEADER_IS_NULL:
        return ValueError(f"{where} has a null instead of header {number}")
    if error == PLAN_HEADER_NO_KEY:
        return ValueError(f"{where} has no key for header {number}; only the value of a header may be null")
    if error == PLAN_RECORD_NEVER_FITS:
        return RecordTooLargeError(
            f"{where} takes {number} bytes, more than buffer_memory={buffer} ever allows: raise it, or send less in one "
            "record", size=number, limit="buffer_memory",
        )
    return too_large(where, number, options.max_record_size)


cdef int read_options(
    plan_options *options, partitions, batch_size, now, unkeyed_partition, ignore_keys, max_record_size
) except -1:
    if not 1 <= partitions <= INT32_MAX:
        raise ValueError(f"partitions must be at least 1, not {partitions}")
    if not BATCH_OVERHEAD < batch_size <= INT32_MAX:
        raise ValueError(f"batch_size must be from {BATCH_OVERHEAD + 1} to {INT32_MAX} bytes, not {batch_size}")
    if not BATCH_OVERHEAD < max_record_size <= INT32_MAX:
        raise ValueError(
            f"max_record_size must be from {BATCH_OVERHEAD + 1} to {INT32_MAX} bytes, not {max_record_size}"
        )
    if unkeyed_partition is not None and not 0 <= unkeyed_partition < partitions:
        raise ValueError(f"unkeyed_partition must be from 0 to {partitions - 1}, not {unkeyed_partition}")
    options.partitions = partitions
    options.batch_size = batch_size
    options.now = now
    options.max_record_size = max_record_size
    options.ignore_keys = bool(ignore_keys)
    options.unkeyed = -1 if unkeyed_partition is None else unkeyed_partition
    return 0


@cython.final
cdef class Rows:
    """The rows of a table, read in place and kept for as long as this lives.

    `columns` is what `encode_columns` takes; a stream is read to its end here, in the calling thread.
    """

    cdef Segments segments

    def __cinit__(self, columns):
        cdef Segments segments = read_columns(columns)
        segments.cut()
        self.segments = segments

    def __len__(self):
        return self.segments.rows

    @property
    def name_partitions(self):
        """Whether every row names its partition, as far as the layout shows: none is to be chosen for them then."""
        return all_name_partitions(self.segments.segments, self.segments.count)

    def slices(
        self, *, partitions, most_bytes, most_rows=None, buffer=INT64_MAX, unkeyed_partition=None, ignore_keys=False,
        max_record_size=INT32_MAX, topic=None,
    ):
        """Checks every row, and cuts them into (first row, count, about how many bytes): at most so much, or one row.

        Raises what `encode_columns` would of any row; also for one whose record does not fit into `buffer` bytes.
        """
        cdef plan_options options
        cdef slicing_t slicing
        cdef plan_error error
        cdef int64_t i
        read_options(&options, partitions, INT32_MAX, 0, unkeyed_partition, ignore_keys, max_record_size)
        memset(&slicing, 0, sizeof(slicing))
        slicing.most_bytes = most_bytes
        slicing.most_rows = INT64_MAX if most_rows is None else most_rows
        slicing.buffer = buffer
        try:
            if self.segments.rows > MANY_ROWS:
                with nogil:
                    error = measure_rows(&slicing, self.segments.segments, self.segments.count, &options)
            else:
                error = measure_rows(&slicing, self.segments.segments, self.segments.count, &options)
            if error != PLAN_OK:
                raise row_failure(error, slicing.row, slicing.number, &options, buffer, topic)
            return [
                (slicing.slices[i].first, slicing.slices[i].count, slicing.slices[i].size) for i in range(slicing.count)
            ]
        finally:
            free(slicing.slices)


@cython.final
cdef class Selection:
    """Some of the rows, next to each other."""

    cdef Rows source
    cdef segment_t *own
    cdef segment_t *segments
    cdef int32_t count
    cdef int64_t rows

    def __cinit__(self, Rows source, int64_t first, count):
        cdef int64_t rows = source.segments.rows
        cdef int64_t most = rows - first if count is None else count
        if first < 0 or most < 0 or most > rows - first:
            raise ValueError(f"there are no {most} rows from row {first} on: there are {rows}")
        if most > INT32_MAX:
            raise ValueError(f"{most} rows at once are more than {INT32_MAX}")
        self.source = source
        self.rows = most
        self.segments = source.segments.segments
        self.count = source.segments.count
        if most == rows:
            return
        self.own = <segment_t *> PyMem_Realloc(NULL, self.count * sizeof(segment_t))
        if self.own == NULL:
            raise MemoryError()
        self.count = select_rows(self.own, self.segments, first, most)
        self.segments = self.own

    def __dealloc__(self):
        PyMem_Free(self.own)


def encode_columns(
    columns, *, partitions, batch_size, now, unkeyed_partition=None, ignore_keys=False, max_record_size=INT32_MAX,
    rows=False, topic=None, Accumulator accumulator=None, first=0, count=None,
):
    """Columns `value` and optionally `key`, `headers`, `timestamp` and `partition` as sealed batches.

    `columns` is a mapping of names to Arrow arrays, or one Arrow table, record batch or array of structs, or such a
    thing as `Rows`; of its rows `count` are taken, from the `first` on, or all. A row goes
    to the partition it names, else to that of its key as in Kafka's own client (unless keys are ignored), else to
    `unkeyed_partition`; without a timestamp it gets `now` (ms). Sizes are in bytes and include the header of a batch; a record that is larger
    than `batch_size` has a batch of its own. With `rows=True` the batches know which rows they are made of.

    With an `accumulator` the batches count against its bounds until they are completed, and receipts for them can be
    waited for as for its own. BufferFull: there is no room now, and nothing was encoded. What is larger than the
    bounds ever allow is a ValueError: give it in slices.

        batches = encode_columns(table, partitions=16, batch_size=16384, now=1700000000000)
    """
    cdef plan_options options
    cdef plan_t plan
    cdef plan_error error
    cdef Selection segments
    cdef Memory scratch
    cdef list batches
    cdef size_t size = 0
    cdef int i
    read_options(&options, partitions, batch_size, now, unkeyed_partition, ignore_keys, max_record_size)
    if accumulator is not None:
        check_open(accumulator.settings)
    segments = Selection(columns if isinstance(columns, Rows) else Rows(columns), first, count)
    scratch = take(segments.rows * sizeof(placement))
    memset(&plan, 0, sizeof(plan))
    plan.placements = <placement *> scratch.data
    try:
        if segments.rows > MANY_ROWS:
            with nogil:
                error = plan_rows(&plan, segments.segments, segments.count, &options)
        else:
            error = plan_rows(&plan, segments.segments, segments.count, &options)
        if error != PLAN_OK:
            raise row_failure(error, first + plan.row, plan.number, &options, None, topic)
        for i in range(plan.count):
            size += plan.batches[i].size
        batches = charged_batches(&plan, size, segments.rows, rows, topic, accumulator)
        if segments.rows > MANY_ROWS or size > MANY_BYTES:
            with nogil:
                write_rows(&plan, segments.segments, segments.count, options.now)
        else:
            write_rows(&plan, segments.segments, segments.count, options.now)
        finish_batches(batches, &plan)
    finally:
        plan_free(&plan)
    return batches


cdef list charged_batches(plan_t *plan, size_t size, int64_t rows, keep_rows, topic, Accumulator accumulator):
    cdef Settings settings
    cdef list batches
    cdef EncodedBatch batch
    cdef double opened_at
    if accumulator is None:
        return make_batches(plan, topic, rows if keep_rows else 0, None)
    settings = accumulator.settings
    opened_at = monotonic_now(settings)
    charge(settings.budget, size, rows, topic)
    try:
        batches = make_batches(plan, topic, rows if keep_rows else 0, settings.waiting)
    except BaseException:
        settings.budget.refund(size)
        settings.budget.refund_records(rows)
        raise
    for batch in batches:
        batch.budget = settings.budget
        batch.charged = batch.memory.size
        batch.opened_at = opened_at
    return batches


cdef int charge(Budget budget, size_t size, int64_t rows, topic) except -1:
    where = f"{rows} rows to {topic}"
    if <int64_t> size > budget.most:
        raise never_fits(f"{where} take", size, budget)
    if rows > budget.most_records:
        raise ValueError(f"{where} are more than max_buffered_records={budget.most_records} ever allows: slice them")
    if not budget.charge_records(rows):
        raise records_full(budget, where)
    if not budget.charge(size):
        budget.refund_records(rows)
        raise bytes_full(budget, size, where)
    return 0


cdef list make_batches(plan_t *plan, topic, int64_t rows, Waiting waiting):
    """Batches with the memory that the plan needs; with `rows`, one block for the row numbers of them all."""
    cdef list batches = []
    cdef EncodedBatch batch
    cdef planned_batch *planned
    cdef Memory row_memory = take(rows * sizeof(int32_t)) if rows else None
    cdef int64_t row = 0
    cdef int32_t i
    for i in range(plan.count):
        planned = &plan.batches[i]
        batch = new_batch(topic, planned.partition, take(planned.size), waiting)
        batch.records.count = planned.count
        planned.data = batch.memory.data
        if rows:
            batch.row_memory = row_memory
            batch.row_numbers = planned.rows = <int32_t *> row_memory.data + row
            row += planned.count
        batches.append(batch)
    return batches


cdef int finish_batches(list batches, plan_t *plan) except -1:
    cdef EncodedBatch batch
    cdef planned_batch *planned = plan.batches
    for batch in batches:
        batch.records.end = planned.size
        batch.records.base_timestamp = planned.base_timestamp
        batch.records.max_timestamp = planned.max_timestamp
        batch.crc = planned.crc
        batch.has_crc = True
        batch.sealed = True
        planned += 1
    return 0


writer_setup()
