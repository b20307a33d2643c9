/* Values of Avro, without a container, into columns: one pass over the bytes, led by the writer's schema.
 *
 * A malformed value is a row of nulls, as Avro has no way to go on behind a mistake. Recursion is with the depth of
 * the schema, never of a value, and memory is bounded by the bytes: what has no bytes is counted. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "avro_plan.h"

/* The first malformed value. */
struct avro_failure {
    int64_t row;                  /* -1 where all are well */
    const char *problem;          /* NULL where it has another schema id than the one that is wanted */
    const struct avro_node *node; /* whose value it is, or NULL */
    int64_t position;             /* in the bytes of the value; else the id that it has */
};

/* Rows of binary, in the sense of Arrow: `first` is where they begin, `validity` NULL where none is null. */
struct avro_values {
    const uint8_t *validity;
    const int32_t *offsets;
    const uint8_t *data;
    int64_t first, rows;
};

/* Appends all values and sets the bits of those that are malformed: how many, or -1 without memory. Where `schema_id`
 * is not negative, values begin with byte 0 and that id. */
int64_t avro_read_values(const struct avro_node *root, const struct avro_values *values, int64_t schema_id,
                         uint8_t *malformed, struct avro_failure *failure);
