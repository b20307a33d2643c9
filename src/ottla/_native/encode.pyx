# cython: language_level=3, freethreading_compatible=True
"""Arrow columns into record batches.

Whatever exports Arrow's C data interface is read in place: here its capsules are opened, and its chunks cut into
segments of rows for which no column changes its chunk. The loops over the rows are plain C (`distribute.c`) and run
without the GIL; types are checked in `arrow_input.c`.

Invariants: what was imported is released on every path and not before the last row was read; and an error leaves
nothing behind, since all that can be wrong is found before the first batch is made.
"""

cimport cython
from collections.abc import Mapping

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from ottla._native.memory cimport Memory, take
from ottla._native.outgoing cimport EncodedBatch, new_batch

from ottla._native.outgoing import EncodedBatch as EncodedBatch

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
        PLAN_NO_PARTITION
        PLAN_TIMESTAMP_RANGE
        PLAN_HEADER_IS_NULL
        PLAN_HEADER_NO_KEY
        PLAN_RECORD_TOO_LARGE
    struct plan_options:
        int32_t partitions
        int32_t unkeyed
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
    plan_error plan_rows(plan_t *, const segment_t *, int32_t count, const plan_options *)
    void write_rows(plan_t *, const segment_t *, int32_t count, int64_t now)
    void plan_free(plan_t *)

cdef extern from "writer.h":
    void writer_setup()

# Fewer rows, or fewer bytes, are done in about 100 us, and giving the GIL away would not pay.
cdef enum:
    MANY_ROWS = 8192
    MANY_BYTES = 512 * 1024

EXPECTED = {
    "key": "binary or utf8 (also large or view)",
    "value": "binary or utf8 (also large or view)",
    "headers": "a list of struct<key: utf8, value: binary>",
    "timestamp": "int64 (milliseconds) or a timestamp",
    "partition": "int8, int16, int32 or int64",
}

TYPE_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary",
    "vz": "binary_view", "u": "utf8", "U": "large_utf8", "vu": "utf8_view", "tdD": "date32", "tdm": "date64",
    "tts": "time32[s]", "ttm": "time32[ms]", "ttu": "time64[us]", "ttn": "time64[ns]", "tDs": "duration[s]",
    "tDm": "duration[ms]", "tDu": "duration[us]", "tDn": "duration[ns]", "+s": "struct", "+l": "list",
    "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view", "+m": "map", "+r": "run_end_encoded",
}


cdef str type_name(const ArrowSchema *schema):
    cdef str format = schema.format.decode()
    cdef str name = TYPE_NAMES.get(format)
    if schema.dictionary != NULL:
        return f"dictionary<{type_name(schema.dictionary)}>"
    if name is None:
        return f"with Arrow's format {format!r}"
    if format[0] != "+":
        return name
    return f"{name}<{', '.join([field_name(schema.children[i]) for i in range(schema.n_children)])}>"


cdef str field_name(const ArrowSchema *schema):
    return f"{'' if schema.name == NULL else schema.name.decode()}: {type_name(schema)}"


@cython.final
cdef class Chunks:
    """The arrays that one object exports, of one schema; given back when this dies."""

    cdef tuple capsules
    cdef ArrowSchema *schema
    cdef ArrowSchema own_schema
    cdef ArrowArray *arrays
    cdef ArrowArray *own_arrays
    cdef Py_ssize_t count

    def __dealloc__(self):
        for i in range(self.count):
            if self.own_arrays != NULL and self.own_arrays[i].release != NULL:
                self.own_arrays[i].release(&self.own_arrays[i])
        PyMem_Free(self.own_arrays)
        if self.own_schema.release != NULL:
            self.own_schema.release(&self.own_schema)

    cdef int64_t length(self):
        cdef int64_t rows = 0
        for i in range(self.count):
            rows += self.arrays[i].length
        return rows

    cdef int read_array(self, exporter) except -1:
        # The capsules release what they hold when they die, as nobody moves it out of them.
        schema, array = self.capsules = tuple(exporter.__arrow_c_array__())
        self.schema = <ArrowSchema *> PyCapsule_GetPointer(schema, "arrow_schema")
        self.arrays = <ArrowArray *> PyCapsule_GetPointer(array, "arrow_array")
        self.count = 1
        return 0

    cdef int read_stream(self, exporter) except -1:
        cdef ArrowArrayStream *stream
        cdef ArrowArray *grown
        cdef Py_ssize_t room = 0
        capsule = exporter.__arrow_c_stream__()
        stream = <ArrowArrayStream *> PyCapsule_GetPointer(capsule, "arrow_array_stream")
        if stream.get_schema(stream, &self.own_schema) != 0:
            raise OSError(f"the Arrow stream failed: {stream_error(stream)}")
        self.schema = &self.own_schema
        while True:
            if self.count == room:
                room = 2 * room + 4
                grown = <ArrowArray *> PyMem_Realloc(self.own_arrays, room * sizeof(ArrowArray))
                if grown == NULL:
                    raise MemoryError()
                self.own_arrays = self.arrays = grown
            if stream.get_next(stream, &self.own_arrays[self.count]) != 0:
                raise OSError(f"the Arrow stream failed: {stream_error(stream)}")
            if self.own_arrays[self.count].release == NULL:
                return 0
            self.count += 1


cdef str stream_error(ArrowArrayStream *stream):
    cdef const char *message = stream.get_last_error(stream)
    return "no reason given" if message == NULL else message.decode(errors="replace")


cdef Chunks import_chunks(exporter, what):
    cdef Chunks chunks = Chunks()
    if hasattr(exporter, "__arrow_c_array__"):
        chunks.read_array(exporter)
    elif hasattr(exporter, "__arrow_c_stream__"):
        chunks.read_stream(exporter)
    else:
        raise TypeError(f"{what} must be an Arrow array (with __arrow_c_array__), not {type(exporter).__name__}")
    return chunks


@cython.final
cdef class Column:
    """One column: chunks, or a child of chunks of structs; and how far it has been read."""

    cdef str name
    cdef Chunks chunks
    cdef int64_t child
    cdef Py_ssize_t chunk
    cdef int64_t row

    def __cinit__(self, str name, Chunks chunks, int64_t child):
        self.name = name
        self.chunks = chunks
        self.child = child

    cdef int64_t left_in_chunk(self) noexcept:
        """How many rows are left in this chunk; moves on to the next one where none is."""
        while self.row == self.chunks.arrays[self.chunk].length:
            self.chunk += 1
            self.row = 0
        return self.chunks.arrays[self.chunk].length - self.row

    cdef int fill(self, segment_t *segment) except -1:
        cdef ArrowSchema *schema = self.chunks.schema
        cdef ArrowArray *array = &self.chunks.arrays[self.chunk]
        cdef int64_t parent = self.row
        cdef int answer
        if self.child >= 0:
            schema = schema.children[self.child]
            parent += array.offset
            array = array.children[self.child]
        if self.name == "key":
            answer = bytes_column(&segment.key, schema, array, parent)
        elif self.name == "value":
            answer = bytes_column(&segment.value, schema, array, parent)
        elif self.name == "timestamp":
            answer = time_column(&segment.timestamp, schema, array, parent)
        elif self.name == "headers":
            answer = header_column(&segment.headers, schema, array, parent)
        else:
            answer = partition_column(&segment.partition, schema, array, parent)
        if answer != 0:
            raise TypeError(
                f"column {self.name!r} is of type {type_name(schema)}, but must be {EXPECTED[self.name]}"
            )
        return 0


@cython.final
cdef class Segments:
    """The rows to encode, in runs for which every column stays within one chunk."""

    cdef list columns
    cdef Chunks structs
    cdef segment_t *segments
    cdef int32_t count
    cdef int64_t rows

    def __dealloc__(self):
        PyMem_Free(self.segments)

    cdef int cut(self) except -1:
        cdef int64_t row = 0
        cdef int32_t room = 0
        cdef segment_t *grown
        while row < self.rows:
            if self.count == room:
                room = 2 * room + 4
                grown = <segment_t *> PyMem_Realloc(self.segments, room * sizeof(segment_t))
                if grown == NULL:
                    raise MemoryError()
                self.segments = grown
            row += self.cut_one(&self.segments[self.count], self.rows - row)
            self.count += 1
        return 0

    cdef int64_t cut_one(self, segment_t *segment, int64_t length) except -1:
        cdef Column column
        memset(segment, 0, sizeof(segment_t))
        row_column(&segment.rows, NULL, 0)
        for column in self.columns:
            length = min(length, column.left_in_chunk())
        for column in self.columns:
            column.fill(segment)
            if self.structs is not None:
                row_column(&segment.rows, &self.structs.arrays[column.chunk], column.row)
            column.row += length
        segment.length = length
        return length


cdef int check_names(list names) except -1:
    unknown = [name for name in names if name not in EXPECTED]
    if unknown:
        raise ValueError(f"unknown columns {', '.join(map(repr, unknown))}: known are {', '.join(EXPECTED)}")
    if "value" not in names:
        raise ValueError(f"there is no column 'value', only {', '.join(map(repr, names)) or 'nothing'}")
    if len(set(names)) != len(names):
        raise ValueError(f"a column is there twice: {', '.join(map(repr, names))}")
    return 0


cdef Segments read_columns(columns):
    if hasattr(columns, "__arrow_c_array__") or hasattr(columns, "__arrow_c_stream__"):
        return read_structs(import_chunks(columns, "columns"))
    if isinstance(columns, Mapping):
        return read_mapping(columns)
    raise TypeError(
        "columns must be a mapping of names to Arrow arrays, or an Arrow table, batch or array of structs, "
        f"not {type(columns).__name__}"
    )


cdef Segments read_structs(Chunks chunks):
    cdef Segments segments = Segments()
    if chunks.schema.format != b"+s" or chunks.schema.dictionary != NULL:
        raise TypeError(f"columns must be an Arrow array of structs, not of type {type_name(chunks.schema)}")
    names = [chunks.schema.children[i].name.decode() for i in range(chunks.schema.n_children)]
    check_names(names)
    segments.columns = [Column(name, chunks, i) for i, name in enumerate(names)]
    segments.structs = chunks
    segments.rows = chunks.length()
    return segments


cdef Segments read_mapping(columns):
    cdef Segments segments = Segments()
    cdef Chunks chunks
    check_names(list(columns))
    segments.columns = []
    lengths = {}
    for name, exporter in columns.items():
        chunks = import_chunks(exporter, f"column {name!r}")
        lengths[name] = chunks.length()
        segments.columns.append(Column(name, chunks, -1))
    segments.rows = lengths["value"]
    if len(set(lengths.values())) > 1:
        told = ", ".join([f"{name!r} has {length}" for name, length in lengths.items()])
        raise ValueError(f"columns differ in their number of rows: {told}")
    return segments


cdef object plan_failure(plan_error error, plan_t *plan, plan_options *options):
    where = f"row {plan.row}"
    if error == PLAN_NO_MEMORY:
        return MemoryError("no memory to plan the batches")
    if error == PLAN_ROW_IS_NULL:
        return ValueError(f"{where} is null as a whole; a tombstone is a row whose value is null")
    if error == PLAN_NO_SUCH_PARTITION:
        return ValueError(f"{where} is for partition {plan.number}, but there are only {options.partitions}")
    if error == PLAN_NO_PARTITION:
        return ValueError(f"{where} has neither partition nor key, and unkeyed_partition is not given")
    if error == PLAN_TIMESTAMP_RANGE:
        return ValueError(f"{where} has a timestamp that does not fit into 64 bits of milliseconds")
    if error == PLAN_HEADER_IS_NULL:
        return ValueError(f"{where} has a null instead of header {plan.number}")
    if error == PLAN_HEADER_NO_KEY:
        return ValueError(f"{where} has no key for header {plan.number}; only the value of a header may be null")
    return ValueError(
        f"{where} takes {plan.number} bytes, more than max_record_size allows ({options.max_record_size})"
    )


cdef int read_options(
    plan_options *options, partitions, batch_size, now, unkeyed_partition, max_record_size
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
    options.unkeyed = -1 if unkeyed_partition is None else unkeyed_partition
    return 0


def encode_columns(
    columns, *, partitions, batch_size, now, unkeyed_partition=None, max_record_size=INT32_MAX, rows=False,
    topic=None,
):
    """Columns `value` and optionally `key`, `headers`, `timestamp` and `partition` as sealed batches.

    `columns` is a mapping of names to Arrow arrays, or one Arrow table, record batch or array of structs. A row goes
    to the partition it names, else to that of its key as in Kafka's own client, else to `unkeyed_partition`; without
    a timestamp it gets `now` (ms). Sizes are in bytes and include the header of a batch; a record that is larger
    than `batch_size` has a batch of its own. With `rows=True` the batches know which rows they are made of.

        batches = encode_columns(table, partitions=16, batch_size=16384, now=1700000000000)
    """
    cdef plan_options options
    cdef plan_t plan
    cdef plan_error error
    cdef Segments segments
    cdef Memory scratch
    cdef list batches
    cdef size_t size = 0
    cdef int i
    read_options(&options, partitions, batch_size, now, unkeyed_partition, max_record_size)
    segments = read_columns(columns)
    if segments.rows > INT32_MAX:
        raise ValueError(f"{segments.rows} rows at once are more than {INT32_MAX}")
    segments.cut()
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
            raise plan_failure(error, &plan, &options)
        batches = make_batches(&plan, topic, segments.rows if rows else 0)
        for i in range(plan.count):
            size += plan.batches[i].size
        if segments.rows > MANY_ROWS or size > MANY_BYTES:
            with nogil:
                write_rows(&plan, segments.segments, segments.count, options.now)
        else:
            write_rows(&plan, segments.segments, segments.count, options.now)
        finish_batches(batches, &plan)
    finally:
        plan_free(&plan)
    return batches


cdef list make_batches(plan_t *plan, topic, int64_t rows):
    """Batches with the memory that the plan needs; with `rows`, one block for the row numbers of them all."""
    cdef list batches = []
    cdef EncodedBatch batch
    cdef planned_batch *planned
    cdef Memory row_memory = take(rows * sizeof(int32_t)) if rows else None
    cdef int64_t row = 0
    cdef int32_t i
    for i in range(plan.count):
        planned = &plan.batches[i]
        batch = new_batch(topic, planned.partition, take(planned.size))
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
        batch.records.count = planned.count
        batch.records.base_timestamp = planned.base_timestamp
        batch.records.max_timestamp = planned.max_timestamp
        batch.crc = planned.crc
        batch.has_crc = True
        batch.sealed = True
        planned += 1
    return 0


writer_setup()
