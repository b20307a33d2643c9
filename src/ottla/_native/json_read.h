/* Documents of JSON into columns: one pass over the bytes, led by the schema.
 *
 * Objects become structs by the names of the fields; a field that is missing is null, one that the schema does not
 * have is checked and left, and of one that is there twice the last counts. A value of another type than its column's
 * leaves the column null, and the document is malformed; bytes that are not JSON leave all of its columns null.
 * Recursion is with the depth of the schema, never of a document. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "column_builder.h"

/* The first malformed document. */
struct json_failure {
    int64_t row;         /* -1 where all are well */
    const char *problem; /* the message without its end */
    const char *column;  /* whose value it is, or NULL */
    int64_t position;    /* in the bytes of the document */
};

/* Appends `rows` documents and sets the bits of those that are malformed: how many, or -1 without memory.
 * `validity` is NULL where none is null; `from` is the first row, in the sense of Arrow. */
int64_t json_read_documents(struct column_builder *root, const uint8_t *validity, const int32_t *offsets,
                            const uint8_t *data, int64_t from, int64_t rows, uint8_t *malformed,
                            struct json_failure *failure);
