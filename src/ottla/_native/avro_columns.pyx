# cython: language_level=3, freethreading_compatible=True
"""Values of Avro to columns of Arrow and back: avro_read.c and avro_write.c from Python.

All sides are Arrow's C data interface. A plan is the schema that the values are written with, as
`ottla.spark.values.avro_plan` writes it down. Nothing is kept between calls, so any number of threads may work.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strcmp

import cython

from ottla._native.memory cimport give_block, take_block

cdef extern from "arrow_abi.h" nogil:
    struct ArrowSchema:
        const char *format
        void *private_data
    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        const void **buffers
        void (*release)(ArrowArray *)

cdef extern from "column_builder.h" nogil:
    void column_builder_use_pool(void *(*take)(size_t, size_t *) noexcept, void (*give)(void *, size_t) noexcept)
    enum column_kind:
        COLUMN_BINARY
    struct column_builder:
        column_kind kind
    int column_builder_make(column_builder *, const ArrowSchema *, int depth)
    void column_builder_free(column_builder *)
    int column_builder_export(column_builder *, ArrowArray *out)
    int column_builder_reserve_columns(column_builder *, int64_t values)

cdef extern from "avro_plan.h" nogil:
    struct avro_node:
        const char *name
        const avro_node *parent
    int avro_plan_make(avro_node *root, const uint8_t *plan, size_t size)
    int avro_plan_bind(avro_node *root, column_builder *column)
    void avro_plan_free(avro_node *root)

cdef extern from "avro_read.h" nogil:
    struct avro_failure:
        int64_t row
        const char *problem
        const avro_node *node
        int64_t position
    struct avro_values:
        const uint8_t *validity
        const int32_t *offsets
        const uint8_t *data
        int64_t first
        int64_t rows
    int64_t avro_read_values(const avro_node *root, const avro_values *values, int64_t schema_id,
                             uint8_t *malformed, avro_failure *failure)

cdef extern from "avro_write.h" nogil:
    struct avro_refusal:
        int64_t row
        const char *problem
        const avro_node *node
    int avro_input_bind(avro_node *root, const ArrowSchema *schema, const ArrowArray *array, int64_t parent)
    int avro_write_values(const avro_node *root, int64_t rows, int64_t schema_id, column_builder *out,
                          avro_refusal *refusal)

cdef enum:
    NO_ID = -1


class AvroValueError(ValueError):
    """A value that the schema does not allow: `row` of those to be written, in the field `path`."""

    def __init__(self, problem: str, row: int, path: str) -> None:
        super().__init__(f"row {row}: {problem}" + (f" ({path})" if path else ""))
        self.problem = problem
        self.row = row
        self.path = path


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef object export_builder(column_builder *builder):
    cdef ArrowArray *out = <ArrowArray *> calloc(1, sizeof(ArrowArray))
    if out == NULL or column_builder_export(builder, out) < 0:
        free(out)
        raise MemoryError("no memory for the columns of Avro")
    return PyCapsule_New(out, "arrow_array", free_array)


@cython.final
cdef class AvroColumns:
    """What `read_avro` found: an Arrow array of structs, one per value, and which values are malformed."""

    cdef object schema
    cdef object array
    cdef readonly object malformed
    cdef readonly int64_t malformed_count
    cdef readonly int64_t first_malformed
    cdef readonly str problem

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema.__arrow_c_schema__(), self.array


@cython.final
cdef class AvroValues:
    """What `write_avro` made: an Arrow array of binary."""

    cdef object schema
    cdef object array

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema.__arrow_c_schema__(), self.array


def read_avro(bytes plan, schema, values, schema_id=None):
    """Reads each of `values`, an Arrow array of binary, into the fields of `schema` that are asked for.

    A null is a null struct. `malformed` has a bit per value that is not what the plan says (None where there is
    none); `problem` describes the first of them. With `schema_id`, byte 0 and that id stand before each value.
    """
    cdef AvroColumns found = AvroColumns.__new__(AvroColumns)
    cdef avro_node node
    cdef column_builder root
    cdef avro_failure failure
    cdef avro_values input
    cdef ArrowArray *array
    cdef int64_t wanted = NO_ID if schema_id is None else schema_id
    schema_capsule = schema.__arrow_c_schema__()
    values_schema, values_array = values.__arrow_c_array__()
    array = <ArrowArray *> PyCapsule_GetPointer(values_array, "arrow_array")
    check_values(<ArrowSchema *> PyCapsule_GetPointer(values_schema, "arrow_schema"))
    input.validity = <const uint8_t *> array.buffers[0]
    input.offsets = <const int32_t *> array.buffers[1]
    input.data = <const uint8_t *> array.buffers[2]
    input.first = array.offset
    input.rows = array.length
    make_plan(&node, plan)
    try:
        make_columns(&root, &node, <ArrowSchema *> PyCapsule_GetPointer(schema_capsule, "arrow_schema"), schema)
        try:
            marks = PyBytes_FromStringAndSize(NULL, (input.rows + 7) // 8)
            found.malformed_count = read_all(
                &node, &root, &input, wanted, <uint8_t *> PyBytes_AS_STRING(marks), &failure
            )
            found.array = export_builder(&root)
            found.schema = schema
            found.first_malformed = failure.row
            if failure.row >= 0:
                found.malformed = marks
                found.problem = describe(&failure, wanted)
            return found
        finally:
            column_builder_free(&root)
    finally:
        avro_plan_free(&node)


def write_avro(bytes plan, structs, schema, schema_id=None):
    """Writes each of `structs`, an Arrow array of them, as a value; a null struct is a null.

    `schema` is Arrow's binary. With `schema_id`, byte 0 and that id are put before each value. Raises AvroValueError
    at the first value that the plan does not allow.
    """
    cdef AvroValues made = AvroValues.__new__(AvroValues)
    cdef avro_node node
    cdef column_builder out
    cdef avro_refusal refusal
    cdef const ArrowSchema *structs_schema
    cdef const ArrowArray *array
    cdef int64_t id = NO_ID if schema_id is None else schema_id
    cdef int written
    binary_capsule = schema.__arrow_c_schema__()
    schema_capsule, array_capsule = structs.__arrow_c_array__()
    structs_schema = <const ArrowSchema *> PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    array = <const ArrowArray *> PyCapsule_GetPointer(array_capsule, "arrow_array")
    if strcmp(structs_schema.format, "+s") != 0:
        raise TypeError(f"what is written as Avro must be an Arrow array of structs, not {structs.type}")
    make_plan(&node, plan)
    try:
        bound = avro_input_bind(&node, structs_schema, array, 0)
        if bound == -1:
            raise MemoryError("no memory for values of Avro")
        if bound < 0:
            raise TypeError(f"columns of these types cannot be written with the schema of Avro: {structs.type}")
        make_binary(&out, <const ArrowSchema *> PyCapsule_GetPointer(binary_capsule, "arrow_schema"), schema)
        try:
            with nogil:
                written = avro_write_values(&node, array.length, id, &out, &refusal)
            if written == -1:
                raise MemoryError("no memory for values of Avro, or more than the 2 GiB that one column holds")
            if written < 0:
                raise AvroValueError(refusal.problem.decode(), refusal.row, path_of(refusal.node))
            made.array = export_builder(&out)
            made.schema = schema
            return made
        finally:
            column_builder_free(&out)
    finally:
        avro_plan_free(&node)


cdef int check_values(const ArrowSchema *schema) except -1:
    if strcmp(schema.format, "z") != 0:
        raise TypeError(f"values must be an Arrow array of binary, not of the format {schema.format.decode()!r}")
    return 0


cdef int make_plan(avro_node *node, bytes plan) except -1:
    cdef int made = avro_plan_make(node, <const uint8_t *> PyBytes_AS_STRING(plan), len(plan))
    if made == -1:
        raise MemoryError("no memory for the schema of Avro")
    if made < 0:
        raise ValueError("this is not a plan of a schema of Avro")
    return 0


cdef int make_columns(column_builder *root, avro_node *node, const ArrowSchema *schema, wanted) except -1:
    cdef int made = column_builder_make(root, schema, 0)
    if made == -1:
        raise MemoryError("no memory for the columns of Avro")
    if made < 0 or strcmp(schema.format, "+s") != 0 or avro_plan_bind(node, root) < 0:
        if made >= 0:
            column_builder_free(root)
        raise TypeError(f"the schema of Avro is not read into these columns: {wanted}")
    return 0


cdef int make_binary(column_builder *out, const ArrowSchema *schema, wanted) except -1:
    cdef int made = column_builder_make(out, schema, 0)
    if made == -1:
        raise MemoryError("no memory for values of Avro")
    if made < 0 or out.kind != COLUMN_BINARY:
        if made >= 0:
            column_builder_free(out)
        raise TypeError(f"values of Avro are binary, not {wanted}")
    return 0


cdef int64_t read_all(const avro_node *node, column_builder *root, const avro_values *values, int64_t schema_id,
                      uint8_t *marks, avro_failure *failure) except -1:
    cdef int64_t malformed = -1
    failure.row = -1
    with nogil:
        memset(marks, 0, (values.rows + 7) // 8)
        if column_builder_reserve_columns(root, values.rows) == 0:
            malformed = avro_read_values(node, values, schema_id, marks, failure)
    if malformed < 0:
        raise MemoryError("no memory for the columns of Avro, or more than the 2 GiB that one of them holds")
    return malformed


cdef str path_of(const avro_node *node):
    """The names of the fields down to it, as in `order.lines[].price`."""
    path = ""
    while node != NULL:
        name = node.name.decode()
        if name:
            path = name + ("." if path and not path.startswith(("[", "{")) else "") + path
        node = node.parent
    return path


cdef str describe(const avro_failure *failure, int64_t wanted):
    if failure.problem == NULL:
        return f"it has schema id {failure.position}, not {wanted}"
    path = path_of(failure.node)
    column = f" of {path!r}" if path else ""
    return f"{failure.problem.decode()}{column}, at byte {failure.position}"


column_builder_use_pool(take_block, give_block)
