/* Columns of Arrow that values of Avro are written from: which type goes to which, and where the values are. */
#pragma once

#include "arrow_input.h"
#include "avro_plan.h"

enum avro_source {
    SOURCE_NULLS,
    SOURCE_BOOLEANS,
    SOURCE_INTEGERS,
    SOURCE_MICROS, /* timestamps */
    SOURCE_FLOATS,
    SOURCE_DOUBLES,
    SOURCE_DECIMALS,
    SOURCE_BYTES,
    SOURCE_TEXTS,
    SOURCE_LISTS,
    SOURCE_MAPS,
    SOURCE_STRUCTS,
};

struct avro_input {
    enum avro_source source;
    struct column column;
    struct column keys; /* of maps */
};

/* Gives each node the column that it is written from, by the names of fields: -1 without memory, -2 where types do not
 * go together, a column is of no field, or a field that is never null has no column. */
int avro_input_bind(struct avro_node *node, const struct ArrowSchema *schema, const struct ArrowArray *array,
                    int64_t parent);
