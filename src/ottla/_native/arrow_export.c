#include "arrow_export.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHILDREN = 8, MOST_BUFFERS = 3 };

/* A node with room for its children. Children are separate allocations, as they may outlive their parent. */
struct array_private {
    PyObject *owner;
    const void *buffers[MOST_BUFFERS];
    struct ArrowArray *children[MOST_CHILDREN];
};

struct schema_private {
    struct ArrowSchema *children[MOST_CHILDREN];
};

static void release_schema(struct ArrowSchema *schema)
{
    struct schema_private *private = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (private->children[i]->release != NULL)
            private->children[i]->release(private->children[i]);
        free(private->children[i]);
    }
    free(private);
    schema->release = NULL;
}

/* One node; -1 when there is no memory. Names and formats are literals and need no copy. */
static int make_schema(struct ArrowSchema *out, const char *format, const char *name, int64_t flags, int children)
{
    struct schema_private *private = calloc(1, sizeof *private);
    if (private == NULL)
        return -1;
    *out = (struct ArrowSchema){.format = format,
                                .name = name,
                                .flags = flags,
                                .children = private->children,
                                .release = release_schema,
                                .private_data = private};
    for (int i = 0; i < children; i++) {
        private->children[i] = calloc(1, sizeof *private->children[i]);
        if (private->children[i] == NULL) {
            release_schema(out);
            return -1;
        }
        out->n_children++;
    }
    return 0;
}

int arrow_export_schema(struct ArrowSchema *out, const char *timestamp_format)
{
    struct ArrowSchema root, *headers;
    if (make_schema(&root, "+s", "", 0, 8) < 0)
        return -1;
    struct ArrowSchema **child = root.children;
    if (make_schema(child[0], "z", "key", ARROW_FLAG_NULLABLE, 0) < 0
        || make_schema(child[1], "z", "value", ARROW_FLAG_NULLABLE, 0) < 0
        || make_schema(child[2], "u", "topic", 0, 0) < 0 || make_schema(child[3], "i", "partition", 0, 0) < 0
        || make_schema(child[4], "l", "offset", 0, 0) < 0
        || make_schema(child[5], timestamp_format, "timestamp", 0, 0) < 0
        || make_schema(child[6], "i", "timestampType", 0, 0) < 0
        || make_schema(child[7], "+l", "headers", 0, 1) < 0)
        goto no_memory;
    headers = child[7]->children[0];
    if (make_schema(headers, "+s", "item", 0, 2) < 0 || make_schema(headers->children[0], "u", "key", 0, 0) < 0
        || make_schema(headers->children[1], "z", "value", ARROW_FLAG_NULLABLE, 0) < 0)
        goto no_memory;
    *out = root;
    return 0;
no_memory:
    release_schema(&root);
    return -1;
}

static void drop_owner(PyObject *owner)
{
    /* After the interpreter is gone there is no reference to drop, and no pool to give anything back to. */
    if (owner == NULL || !Py_IsInitialized())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(owner);
    PyGILState_Release(state);
}

static void release_array(struct ArrowArray *array)
{
    struct array_private *private = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (private->children[i]->release != NULL)
            private->children[i]->release(private->children[i]);
        free(private->children[i]);
    }
    drop_owner(private->owner);
    free(private);
    array->release = NULL;
}

static int make_array(struct ArrowArray *out, int64_t length, int64_t null_count, int buffers, int children,
                      PyObject *owner)
{
    struct array_private *private = calloc(1, sizeof *private);
    if (private == NULL)
        return -1;
    Py_INCREF(owner);
    private->owner = owner;
    *out = (struct ArrowArray){.length = length,
                               .null_count = null_count,
                               .n_buffers = buffers,
                               .buffers = private->buffers,
                               .children = private->children,
                               .release = release_array,
                               .private_data = private};
    for (int i = 0; i < children; i++) {
        private->children[i] = calloc(1, sizeof *private->children[i]);
        if (private->children[i] == NULL) {
            release_array(out);
            return -1;
        }
        out->n_children++;
    }
    return 0;
}

static int make_binary(struct ArrowArray *out, const struct binary_column *column, int64_t length, PyObject *owner)
{
    if (make_array(out, length, column->null_count, 3, 0, owner) < 0)
        return -1;
    out->buffers[0] = column->null_count > 0 ? column->validity : NULL;
    out->buffers[1] = column->offsets;
    out->buffers[2] = column->data;
    return 0;
}

static int make_numbers(struct ArrowArray *out, const void *numbers, int64_t length, PyObject *owner)
{
    if (make_array(out, length, 0, 2, 0, owner) < 0)
        return -1;
    out->buffers[1] = numbers;
    return 0;
}

int arrow_export_columns(struct ArrowArray *out, const struct columns *columns, int64_t rows, int64_t headers,
                         PyObject *owner)
{
    struct ArrowArray root, *pairs;
    if (make_array(&root, rows, 0, 1, 8, owner) < 0)
        return -1;
    struct ArrowArray **child = root.children;
    if (make_binary(child[0], &columns->key, rows, owner) < 0
        || make_binary(child[1], &columns->value, rows, owner) < 0
        || make_binary(child[2], &columns->topic, rows, owner) < 0
        || make_numbers(child[3], columns->partition, rows, owner) < 0
        || make_numbers(child[4], columns->offset, rows, owner) < 0
        || make_numbers(child[5], columns->timestamp, rows, owner) < 0
        || make_numbers(child[6], columns->timestamp_type, rows, owner) < 0
        || make_array(child[7], rows, 0, 2, 1, owner) < 0)
        goto no_memory;
    child[7]->buffers[1] = columns->header_offsets;
    pairs = child[7]->children[0];
    if (make_array(pairs, headers, 0, 1, 2, owner) < 0
        || make_binary(pairs->children[0], &columns->header_key, headers, owner) < 0
        || make_binary(pairs->children[1], &columns->header_value, headers, owner) < 0)
        goto no_memory;
    *out = root;
    return 0;
no_memory:
    release_array(&root);
    return -1;
}

void arrow_schema_capsule_free(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (schema == NULL)
        return;
    if (schema->release != NULL)
        schema->release(schema);
    free(schema);
}

void arrow_array_capsule_free(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array == NULL)
        return;
    if (array->release != NULL)
        array->release(array);
    free(array);
}
