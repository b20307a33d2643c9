/* Values without others inside of them, from their text into their column. */
#pragma once

#include "json_cursor.h"
#include "column_builder.h"

/* What became of a value. The reader stands behind it, unless it stopped. */
enum json_outcome {
    JSON_READ,    /* appended */
    JSON_PARTLY,  /* appended, with nulls for what was of a wrong type */
    JSON_WRONG,   /* of a wrong type: nothing was appended */
    JSON_STOPPED, /* not JSON, or no memory */
};

/* There is no memory; the value at hand is of another type than its column's, but still has to be JSON. */
enum json_outcome json_out_of_memory(struct json_cursor *r);
enum json_outcome json_wrong(struct json_cursor *r, const struct column_builder *node);

/* Reads the value at hand, which is not null, into a column that is no list, map or struct. */
enum json_outcome json_read_leaf(struct json_cursor *r, struct column_builder *node);
enum json_outcome json_read_string(struct json_cursor *r, struct column_builder *node);
