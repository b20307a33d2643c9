/* Columns to values of Avro, without a container, row by row: the bytes are appended to a column of binary. */
#pragma once

#include <stdint.h>

#include "avro_input.h"

struct avro_refusal {
    int64_t row;         /* -1: none */
    const char *problem; /* what does not fit */
    const struct avro_node *node;
};

/* Appends a value per row; a struct that is null is a null. 0, -1 without memory or beyond the 2 GiB that a column of
 * binary has, -2 where a value does not fit its type. Where `schema_id` is not negative, byte 0 and it come first. */
int avro_write_values(const struct avro_node *root, int64_t rows, int64_t schema_id, struct column_builder *out,
                      struct avro_refusal *refusal);
