# cython: language_level=3, freethreading_compatible=True
"""Columns of Arrow to documents of JSON: json_write.c from Python.

An array of structs goes in, an array of binary comes out, one document for each struct, both through Arrow's C data
interface. Nothing is kept between calls, so any number of threads may write.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport strcmp

import cython

cdef extern from "arrow_abi.h" nogil:
    struct ArrowSchema:
        const char *format
        const char *name
        void (*release)(ArrowSchema *)
    struct ArrowArray:
        int64_t length
        void (*release)(ArrowArray *)

cdef extern from "json_write.h" nogil:
    struct written_column:
        pass
    struct documents:
        pass
    int written_column_make(written_column *, const ArrowSchema *, const ArrowArray *, const ArrowSchema **refused)
    void written_column_free(written_column *)
    int json_write_documents(const written_column *root, int64_t rows, documents *out)
    void documents_free(documents *)
    int documents_export(documents *, int64_t rows, ArrowArray *out)
    void documents_schema(ArrowSchema *out)


cdef void free_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *> PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


@cython.final
cdef class JsonDocuments:
    """What `write_json` wrote: an Arrow array of binary, which is handed out once."""

    cdef object array

    def __arrow_c_array__(self, requested_schema=None):
        cdef ArrowSchema *schema = <ArrowSchema *> calloc(1, sizeof(ArrowSchema))
        if schema == NULL:
            raise MemoryError("no memory for a schema")
        documents_schema(schema)
        return PyCapsule_New(schema, "arrow_schema", free_schema), self.array


def write_json(structs):
    """Writes each of `structs`, an Arrow array of structs or a record batch, as Spark's to_json writes it.

    A struct that is null is a null. Strings are taken to be UTF-8, as Arrow says of them.
    """
    cdef JsonDocuments result = JsonDocuments.__new__(JsonDocuments)
    cdef written_column root
    cdef documents found
    cdef ArrowArray *out
    schema_capsule, array_capsule = structs.__arrow_c_array__()
    cdef ArrowSchema *schema = <ArrowSchema *> PyCapsule_GetPointer(schema_capsule, "arrow_schema")
    cdef ArrowArray *array = <ArrowArray *> PyCapsule_GetPointer(array_capsule, "arrow_array")
    make_root(&root, schema, array)
    try:
        write_all(&root, array.length, &found)
    finally:
        written_column_free(&root)
    out = <ArrowArray *> calloc(1, sizeof(ArrowArray))
    if out == NULL or documents_export(&found, array.length, out) < 0:
        documents_free(&found)
        free(out)
        raise MemoryError("no memory for documents of JSON")
    result.array = PyCapsule_New(out, "arrow_array", free_array)
    return result


cdef int make_root(written_column *root, const ArrowSchema *schema, const ArrowArray *array) except -1:
    cdef const ArrowSchema *refused = schema
    cdef int made = -2
    if strcmp(schema.format, "+s") == 0:
        made = written_column_make(root, schema, array, &refused)
    if made == -1:
        raise MemoryError("no memory for the columns of JSON")
    if made < 0:
        name = "" if refused.name == NULL else refused.name.decode()
        raise TypeError(
            f"JSON is not written of {name!r}, an Arrow array of the format {refused.format.decode()!r}: an array of "
            "structs is needed, of types that JSON is written of, and maps with strings as keys"
        )
    return 0


cdef int write_all(const written_column *root, int64_t rows, documents *found) except -1:
    cdef int wrote
    with nogil:
        wrote = json_write_documents(root, rows, found)
    if wrote < 0:
        documents_free(found)
    if wrote == -1:
        raise MemoryError("no memory for documents of JSON")
    if wrote < 0:
        raise OverflowError(f"{rows} rows make more than 2 GiB of JSON: write fewer of them at a time")
    return 0
