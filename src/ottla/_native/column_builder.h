/* Columns in the making: one node per column, list, map or struct of the schema, in the layout of Arrow.
 *
 * A value is appended to its node, and a row that turns out to be wrong is cut off again:
 * `column_builder_truncate` takes a node, and what is below it, back to any earlier length. So nothing is written
 * twice, and nothing is half there. What the values are read from is known to those who append: JSON, Avro. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arrow_abi.h"

enum column_kind {
    COLUMN_NULL,
    COLUMN_BOOLEAN,
    COLUMN_INT8,
    COLUMN_INT16,
    COLUMN_INT32,
    COLUMN_INT64,
    COLUMN_FLOAT,
    COLUMN_DOUBLE,
    COLUMN_DECIMAL,
    COLUMN_STRING,
    COLUMN_BINARY,
    COLUMN_DATE,
    COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_NTZ,
    COLUMN_LIST,
    COLUMN_MAP,
    COLUMN_STRUCT,
};

enum { COLUMN_MOST_NESTING = 64 };

struct column_builder {
    enum column_kind kind;
    uint8_t width;        /* bytes of a value; 0 for booleans and where there are none */
    uint8_t precision, scale;
    uint8_t is_plain;     /* the name needs no escapes in a text */
    const char *name;     /* of the schema, which outlives the node */
    size_t name_length;
    int64_t length;
    int64_t capacity;     /* in values */
    uint8_t *validity;    /* NULL until something is null */
    int32_t *offsets;     /* strings, lists and maps; one more than values */
    uint8_t *data;        /* values, bits of booleans, bytes of strings */
    size_t validity_size, offsets_size, data_size; /* what was allocated for them */
    int64_t data_capacity; /* of strings */
    int child_count;
    struct column_builder *children;
};

/* Where large buffers are from, and where they go when they are released, on any thread: the pool of memory.pyx, which
 * a module that makes columns hands over when it is loaded. */
void column_builder_use_pool(void *(*take)(size_t size, size_t *capacity), void (*give)(void *block, size_t capacity));

/* A node for each of the schema's; -1 without memory, -2 where a type is not one of these or nests too deep. */
int column_builder_make(struct column_builder *node, const struct ArrowSchema *schema, int depth);
/* Whether it is, or holds, a column of that kind. */
int column_builder_holds(const struct column_builder *node, enum column_kind kind);
void column_builder_free(struct column_builder *node);

/* Room for that many values in all; -1 without memory. The second takes the fields of a struct along. */
int column_builder_reserve(struct column_builder *node, int64_t values);
int column_builder_reserve_columns(struct column_builder *node, int64_t values);

/* These return -1 without memory, or where offsets of 32 bits end; the node is then as it was. The capacity never
 * goes beyond that end, so that bytes for which there is room always have offsets. */
int column_builder_reserve_bytes(struct column_builder *node, int64_t bytes);
int column_builder_append_null(struct column_builder *node);
/* For lists, maps and structs, when the children have what belongs to it. */
int column_builder_append_parent(struct column_builder *node);

void column_builder_truncate(struct column_builder *node, int64_t length);

/* Moves the buffers out; the node is empty then. -1 without memory. */
int column_builder_export(struct column_builder *node, struct ArrowArray *out);

static inline int column_builder_room(struct column_builder *node)
{
    return node->length < node->capacity ? 0 : column_builder_reserve(node, node->length + 1);
}

static inline void column_builder_set_valid(struct column_builder *node)
{
    if (__builtin_expect(node->validity != NULL, 0))
        node->validity[node->length / 8] |= (uint8_t)(1u << (node->length % 8));
    node->length++;
}

static inline int column_builder_append_bytes(struct column_builder *node, const uint8_t *bytes, size_t length)
{
    if (column_builder_room(node) < 0)
        return -1;
    int64_t at = node->offsets[node->length], end = at + (int64_t)length;
    if (__builtin_expect(end > node->data_capacity, 0) && column_builder_reserve_bytes(node, end) < 0)
        return -1;
    if (length > 0)
        memcpy(node->data + at, bytes, length);
    node->offsets[node->length + 1] = (int32_t)end;
    column_builder_set_valid(node);
    return 0;
}
