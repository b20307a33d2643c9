/* Columns in the making: one node per column, list, map or struct of the schema, in the layout of Arrow.
 *
 * A value is appended to its node, and a row that turns out to be wrong is cut off again: `json_node_truncate` takes
 * a node, and what is below it, back to any earlier length. So nothing is written twice, and nothing is half there. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "arrow_abi.h"

enum json_kind {
    JSON_BOOLEAN,
    JSON_INT8,
    JSON_INT16,
    JSON_INT32,
    JSON_INT64,
    JSON_FLOAT,
    JSON_DOUBLE,
    JSON_DECIMAL,
    JSON_STRING,
    JSON_BINARY,
    JSON_DATE,
    JSON_TIMESTAMP,
    JSON_TIMESTAMP_NTZ,
    JSON_LIST,
    JSON_MAP,
    JSON_STRUCT,
};

enum { JSON_MOST_NESTING = 64 };

struct json_node {
    enum json_kind kind;
    uint8_t width;        /* bytes of a value; 0 for booleans and where there are none */
    uint8_t precision, scale;
    uint8_t is_plain;     /* the name is written in JSON as it is, without escapes */
    const char *name;     /* of the schema, which outlives the node */
    size_t name_length;
    int64_t length;
    int64_t capacity;     /* in values */
    uint8_t *validity;    /* NULL until something is null */
    int32_t *offsets;     /* strings, lists and maps; one more than values */
    uint8_t *data;        /* values, bits of booleans, bytes of strings */
    int64_t data_capacity; /* of strings */
    int child_count;
    struct json_node *children;
};

/* A node for each of the schema's; -1 without memory, -2 where a type is not one of these or nests too deep. */
int json_node_make(struct json_node *node, const struct ArrowSchema *schema, int depth);
void json_node_free(struct json_node *node);

/* Room for that many values in all; -1 without memory. The second takes the fields of a struct along. */
int json_node_reserve(struct json_node *node, int64_t values);
int json_node_reserve_columns(struct json_node *node, int64_t values);
int json_node_reserve_bytes(struct json_node *node, int64_t bytes);

/* These return -1 without memory; the node is then as it was. */
int json_node_append_null(struct json_node *node);
int json_node_append_bytes(struct json_node *node, const uint8_t *bytes, size_t length);
/* For lists, maps and structs, when the children have what belongs to it. */
int json_node_append_parent(struct json_node *node);

void json_node_truncate(struct json_node *node, int64_t length);

/* Moves the buffers out; the node is empty then. -1 without memory. */
int json_node_export(struct json_node *node, struct ArrowArray *out);

static inline int json_node_room(struct json_node *node)
{
    return node->length < node->capacity ? 0 : json_node_reserve(node, node->length + 1);
}

static inline void json_node_set_valid(struct json_node *node)
{
    if (__builtin_expect(node->validity != NULL, 0))
        node->validity[node->length / 8] |= (uint8_t)(1u << (node->length % 8));
    node->length++;
}
