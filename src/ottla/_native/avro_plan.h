/* The schema of Avro's values, made ready to be gone through: one node per type, in the order of the bytes.
 *
 * Python reads the schema (its names, references and logical types) and writes it down as words, which are read
 * here: a node is its kind, what else there is about it, its name, its number of children, and they follow.
 * For reading, nodes get the columns that their values go to; for writing, those that they come from. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "column_builder.h"

/* The numbers are those of Python's `avro_plan`. */
enum avro_kind {
    AVRO_NULL,
    AVRO_BOOLEAN,
    AVRO_INT,
    AVRO_LONG,
    AVRO_FLOAT,
    AVRO_DOUBLE,
    AVRO_BYTES,
    AVRO_STRING,
    AVRO_RECORD,
    AVRO_ENUM,
    AVRO_ARRAY,
    AVRO_MAP,
    AVRO_UNION, /* of several types: a struct with a member for each that is not null */
    AVRO_WIDE,  /* a union of int and long, or of float and double: one column has them all */
    AVRO_FIXED,
    AVRO_DECIMAL_BYTES,
    AVRO_DECIMAL_FIXED,
    AVRO_TIMESTAMP_MILLIS,
    AVRO_TIMESTAMP_MICROS,
    AVRO_SYMBOL, /* of an enum: a name only */
    AVRO_KINDS,
};

/* A type and null are a union of two, of which null is the first or the second. */
enum avro_null { AVRO_NEVER_NULL, AVRO_NULL_FIRST, AVRO_NULL_SECOND };

struct avro_input;

struct avro_node {
    uint8_t kind;
    uint8_t null;
    int32_t size;         /* of a fixed */
    int32_t precision, scale; /* of a decimal */
    int64_t least;        /* bytes that a value has at least; where that is 0, all values have none */
    const char *name;     /* of a field; [] and {} for what is in arrays and maps. It is in the plan */
    int32_t name_length;
    int32_t child_count;
    struct avro_node *children;
    const struct avro_node *parent;
    struct column_builder *column; /* NULL: not asked for, its bytes are skipped */
    struct avro_input *input; /* NULL: no column has it */
};

/* Reads a plan, which has to outlive the nodes: -1 without memory, -2 where it is none. */
int avro_plan_make(struct avro_node *root, const uint8_t *plan, size_t size);
void avro_plan_free(struct avro_node *root);

/* Gives each node its column: -1 where types do not go together, or where a column is of no field. */
int avro_plan_bind(struct avro_node *node, struct column_builder *column);
