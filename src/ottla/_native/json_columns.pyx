# cython: language_level=3, freethreading_compatible=True
"""Documents of JSON to columns of Arrow: json_read.c from Python.

Both sides are Arrow's C data interface: a schema says which columns are wanted, an array of binary holds the
documents, and an array of structs comes out. Nothing is kept between calls, so any number of threads may read.
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
    struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_buffers
        const void **buffers
        void (*release)(ArrowArray *)

cdef extern from "column_builder.h" nogil:
    void column_builder_use_pool(void *(*take)(size_t, size_t *) noexcept, void (*give)(void *, size_t) noexcept)
    enum column_kind:
        COLUMN_NULL
    struct column_builder:
        pass
    int column_builder_holds(const column_builder *, column_kind)
    int column_builder_make(column_builder *, const ArrowSchema *, int depth)
    void column_builder_free(column_builder *)
    int column_builder_export(column_builder *, ArrowArray *out)
    int column_builder_reserve_columns(column_builder *, int64_t values)

cdef extern from "json_read.h" nogil:
    struct json_failure:
        int64_t row
        const char *problem
        const char *column
        int64_t position
    int64_t json_read_documents(column_builder *root, const uint8_t *validity, const int32_t *offsets,
                                const uint8_t *data, int64_t first, int64_t rows, uint8_t *malformed,
                                json_failure *failure)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


@cython.final
cdef class JsonColumns:
    """What `read_json` found: an Arrow array of structs, one per document, and which documents are malformed."""

    cdef object schema
    cdef object array
    cdef readonly object malformed
    cdef readonly int64_t malformed_count
    cdef readonly int64_t first_malformed
    cdef readonly str problem

    def __arrow_c_array__(self, requested_schema=None):
        return self.schema.__arrow_c_schema__(), self.array


def read_json(schema, values):
    """Reads each of `values`, an Arrow array of binary, as an object with the fields of `schema`.

    A null, and a value of blanks, is a null struct. `malformed` has a bit per document that is not what the schema
    says (None where there is none); `problem` describes the first of them.
    """
    cdef JsonColumns found = JsonColumns.__new__(JsonColumns)
    cdef column_builder root
    cdef json_failure failure
    cdef ArrowArray *out
    schema_capsule = schema.__arrow_c_schema__()
    values_schema, values_array = values.__arrow_c_array__()
    cdef ArrowArray *documents = <ArrowArray *> PyCapsule_GetPointer(values_array, "arrow_array")
    check_documents(<ArrowSchema *> PyCapsule_GetPointer(values_schema, "arrow_schema"))
    make_root(&root, <ArrowSchema *> PyCapsule_GetPointer(schema_capsule, "arrow_schema"), schema)
    try:
        marks = PyBytes_FromStringAndSize(NULL, (documents.length + 7) // 8)
        found.malformed_count = read_all(&root, documents, <uint8_t *> PyBytes_AS_STRING(marks), &failure)
        out = <ArrowArray *> calloc(1, sizeof(ArrowArray))
        if out == NULL or column_builder_export(&root, out) < 0:
            free(out)
            raise MemoryError("no memory for the columns of JSON")
        found.array = PyCapsule_New(out, "arrow_array", free_array)
        found.schema = schema
        found.first_malformed = failure.row
        if failure.row >= 0:
            found.malformed = marks
            found.problem = describe(&failure)
        return found
    finally:
        column_builder_free(&root)


cdef int check_documents(const ArrowSchema *schema) except -1:
    if strcmp(schema.format, "z") != 0:
        raise TypeError(f"values must be an Arrow array of binary, not of the format {schema.format.decode()!r}")
    return 0


cdef int make_root(column_builder *root, const ArrowSchema *schema, wanted) except -1:
    cdef int made = column_builder_make(root, schema, 0)
    if made == -1:
        raise MemoryError("no memory for the columns of JSON")
    if made < 0 or strcmp(schema.format, "+s") != 0 or column_builder_holds(root, COLUMN_NULL):
        if made >= 0:
            column_builder_free(root)
        raise TypeError(f"the schema has a type that JSON is not read into: {wanted}")
    return 0


cdef int64_t read_all(column_builder *root, const ArrowArray *documents, uint8_t *marks,
                      json_failure *failure) except -1:
    cdef const uint8_t *validity = <const uint8_t *> documents.buffers[0]
    cdef const int32_t *offsets = <const int32_t *> documents.buffers[1]
    cdef const uint8_t *data = <const uint8_t *> documents.buffers[2]
    cdef int64_t rows = documents.length, first = documents.offset, malformed
    failure.row = -1
    with nogil:
        memset(marks, 0, (rows + 7) // 8)
        malformed = -1
        if column_builder_reserve_columns(root, rows) == 0:
            malformed = json_read_documents(root, validity, offsets, data, first, rows, marks, failure)
    if malformed < 0:
        raise MemoryError("no memory for the columns of JSON")
    return malformed


cdef str describe(const json_failure *failure):
    column = "" if failure.column == NULL else f" of {failure.column.decode()!r}"
    return f"{failure.problem.decode()}{column}, at byte {failure.position}"


column_builder_use_pool(take_block, give_block)
