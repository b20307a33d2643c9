#include "arrow_export.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CHILDREN = COLUMN_COUNT, MOST_BUFFERS = 3 };

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

static int make_headers_schema(struct ArrowSchema *out, int64_t flags)
{
    if (make_schema(out, "+l", "headers", flags, 1) < 0)
        return -1;
    struct ArrowSchema *pair = out->children[0];
    if (make_schema(pair, "+s", "element", flags, 2) < 0 || make_schema(pair->children[0], "u", "key", flags, 0) < 0
        || make_schema(pair->children[1], "z", "value", ARROW_FLAG_NULLABLE, 0) < 0)
        return -1; /* the owner of the root releases what has been made */
    return 0;
}

static int make_column_schema(struct ArrowSchema *out, enum column column, const struct layout *layout)
{
    int64_t flags = layout->nullable ? ARROW_FLAG_NULLABLE : 0;
    switch (column) {
    case COLUMN_KEY: return make_schema(out, "z", "key", ARROW_FLAG_NULLABLE, 0);
    case COLUMN_VALUE: return make_schema(out, "z", "value", ARROW_FLAG_NULLABLE, 0);
    case COLUMN_TOPIC: return make_schema(out, "u", "topic", flags, 0);
    case COLUMN_PARTITION: return make_schema(out, "i", "partition", flags, 0);
    case COLUMN_OFFSET: return make_schema(out, "l", "offset", flags, 0);
    case COLUMN_TIMESTAMP: return make_schema(out, layout->timestamp_format, "timestamp", flags, 0);
    case COLUMN_TIMESTAMP_TYPE: return make_schema(out, "i", "timestampType", flags, 0);
    case COLUMN_HEADERS: return make_headers_schema(out, flags);
    case COLUMN_COUNT: break;
    }
    return -1;
}

int arrow_export_schema(struct ArrowSchema *out, const struct layout *layout)
{
    struct ArrowSchema root;
    if (make_schema(&root, "+s", "", 0, layout->count) < 0)
        return -1;
    for (int i = 0; i < layout->count; i++)
        if (make_column_schema(root.children[i], layout->order[i], layout) < 0) {
            release_schema(&root);
            return -1;
        }
    *out = root;
    return 0;
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

static int make_headers(struct ArrowArray *out, const struct columns *columns, int nullable, int64_t rows,
                        int64_t headers, PyObject *owner)
{
    int64_t null_count = nullable ? columns->header_null_count : 0;
    if (make_array(out, rows, null_count, 2, 1, owner) < 0)
        return -1;
    out->buffers[0] = null_count > 0 ? columns->header_validity : NULL;
    out->buffers[1] = columns->header_offsets;
    struct ArrowArray *pairs = out->children[0];
    if (make_array(pairs, headers, 0, 1, 2, owner) < 0
        || make_binary(pairs->children[0], &columns->header_key, headers, owner) < 0
        || make_binary(pairs->children[1], &columns->header_value, headers, owner) < 0)
        return -1; /* the owner of the root releases what has been made */
    return 0;
}

int arrow_export_columns(struct ArrowArray *out, const struct columns *columns, const struct layout *layout,
                         int64_t rows, int64_t headers, PyObject *owner)
{
    struct ArrowArray root;
    if (make_array(&root, rows, 0, 1, layout->count, owner) < 0)
        return -1;
    for (int i = 0; i < layout->count; i++) {
        struct ArrowArray *child = root.children[i];
        int made = -1;
        switch (layout->order[i]) {
        case COLUMN_KEY: made = make_binary(child, &columns->key, rows, owner); break;
        case COLUMN_VALUE: made = make_binary(child, &columns->value, rows, owner); break;
        case COLUMN_TOPIC: made = make_binary(child, &columns->topic, rows, owner); break;
        case COLUMN_PARTITION: made = make_numbers(child, columns->partition, rows, owner); break;
        case COLUMN_OFFSET: made = make_numbers(child, columns->offset, rows, owner); break;
        case COLUMN_TIMESTAMP: made = make_numbers(child, columns->timestamp, rows, owner); break;
        case COLUMN_TIMESTAMP_TYPE: made = make_numbers(child, columns->timestamp_type, rows, owner); break;
        case COLUMN_HEADERS: made = make_headers(child, columns, layout->nullable, rows, headers, owner); break;
        case COLUMN_COUNT: break;
        }
        if (made < 0) {
            release_array(&root);
            return -1;
        }
    }
    *out = root;
    return 0;
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
