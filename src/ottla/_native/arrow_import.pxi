# What exports Arrow's C data interface as segments of rows to read. Part of encode.pyx.
#
# Capsules are opened here, names checked, and chunks cut where any column has its next one begin; which types a column
# may have is known to arrow_input.c, and here is only how errors name them. The owner of the segments keeps the arrays
# alive.

cdef dict EXPECTED = {
    "key": "binary or utf8 (also large, view or a dictionary of them)",
    "value": "binary or utf8 (also large, view or a dictionary of them)",
    "headers": "a list of struct<key: utf8, value: binary> or a map",
    "timestamp": "int64 (milliseconds) or a timestamp",
    "partition": "int8, int16, int32 or int64",
}

cdef dict TYPE_NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary",
    "vz": "binary_view", "u": "utf8", "U": "large_utf8", "vu": "utf8_view", "tdD": "date32", "tdm": "date64",
    "tts": "time32[s]", "ttm": "time32[ms]", "ttu": "time64[us]", "ttn": "time64[ns]", "tDs": "duration[s]",
    "tDm": "duration[ms]", "tDu": "duration[us]", "tDn": "duration[ns]", "+s": "struct", "+l": "list",
    "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view", "+m": "map", "+r": "run_end_encoded",
    # These have parameters behind the colon.
    "w:": "fixed_size_binary", "d:": "decimal", "tss:": "timestamp[s]", "tsm:": "timestamp[ms]",
    "tsu:": "timestamp[us]", "tsn:": "timestamp[ns]", "+w:": "fixed_size_list", "+ud:": "union", "+us:": "union",
}


cdef str type_name(const ArrowSchema *schema):
    cdef str format = schema.format.decode()
    cdef str name = TYPE_NAMES.get(format) or TYPE_NAMES.get(format.partition(":")[0] + ":")
    if schema.dictionary != NULL:
        return f"dictionary<{type_name(schema.dictionary)}>"
    if name is None:
        return f"{format!r} (in Arrow's notation)"
    if format[0] != "+":
        return name
    fields = [
        f"{field_name(schema.children[i])}: {type_name(schema.children[i])}" for i in range(schema.n_children)
    ]
    return f"{name}<{', '.join(fields)}>"


cdef str field_name(const ArrowSchema *schema):
    return "" if schema.name == NULL else schema.name.decode()


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
        # The capsules release what they hold when they die, as nothing moves it out of them.
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
                f"column {self.name!r} is of type {type_name(schema)}, but must be {EXPECTED[self.name]}: cast it"
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
    if hasattr(columns, "items"):
        return read_mapping(columns)
    raise TypeError(
        "columns must be a mapping of names to Arrow arrays, or an Arrow table, batch or array of structs, "
        f"not {type(columns).__name__}"
    )


cdef Segments read_structs(Chunks chunks):
    cdef Segments segments = Segments()
    if chunks.schema.format != b"+s" or chunks.schema.dictionary != NULL:
        raise TypeError(f"columns must be an Arrow array of structs, not of type {type_name(chunks.schema)}")
    names = [field_name(chunks.schema.children[i]) for i in range(chunks.schema.n_children)]
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
