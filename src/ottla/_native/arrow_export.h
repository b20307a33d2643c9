/* Handing columns out through the Arrow C data interface.
 *
 * Every array holds a reference of its own to the Python object that owns the memory: a consumer may move a child
 * out, release the rest, and keep reading. The reference is dropped in `release`, from whatever thread. */
#pragma once

#include <Python.h>

#include "arrow_abi.h"
#include "columns.h"

/* Both return -1 when there is no memory; `out` is then untouched. */
int arrow_export_schema(struct ArrowSchema *out, const struct layout *layout);
int arrow_export_columns(struct ArrowArray *out, const struct columns *columns, const struct layout *layout,
                         int64_t rows, int64_t headers, PyObject *owner);

/* Destructors for the capsules that carry them: release what no importer took. */
void arrow_schema_capsule_free(PyObject *capsule);
void arrow_array_capsule_free(PyObject *capsule);
