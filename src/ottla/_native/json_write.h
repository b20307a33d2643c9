/* Columns of Arrow to documents of JSON: a tree of columns, and one document for each row of the root, a struct.
 *
 * The tree borrows the schema and the array that it is made of. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "arrow_input.h"

enum written_kind {
    WRITTEN_NULL,
    WRITTEN_BOOLEAN,
    WRITTEN_INTEGER,
    WRITTEN_FLOAT,
    WRITTEN_DOUBLE,
    WRITTEN_DECIMAL,
    WRITTEN_STRING,
    WRITTEN_BINARY,
    WRITTEN_DATE,
    WRITTEN_TIMESTAMP,
    WRITTEN_TIMESTAMP_NTZ,
    WRITTEN_LIST,
    WRITTEN_MAP,
    WRITTEN_STRUCT,
};

enum { JSON_MOST_DEPTH = 64 };

struct written_column {
    enum written_kind kind;
    int scale;
    struct column column;
    uint8_t *key; /* its name as it stands in a document, with the comma before and the colon behind */
    size_t key_length;
    int child_count; /* the fields of a struct; what lists are made of; keys and values of maps */
    struct written_column *children;
};

/* What was written, one document behind the other. */
struct documents {
    uint8_t *data;
    size_t length, capacity;
    int32_t *offsets;
    uint8_t *validity; /* NULL where no document is null */
    int64_t null_count;
};

/* -1 without memory, -2 where `refused` is of a type that is not written, or nests too deep. */
int written_column_make(struct written_column *column, const struct ArrowSchema *schema,
                        const struct ArrowArray *array, const struct ArrowSchema **refused);
void written_column_free(struct written_column *column);

/* -1 without memory, -2 where the documents are larger than 32-bit offsets can tell. */
int json_write_documents(const struct written_column *root, int64_t rows, struct documents *out);
void documents_free(struct documents *documents);

/* Moves them out, as an array of binary. -1 without memory. */
int documents_export(struct documents *documents, int64_t rows, struct ArrowArray *out);
void documents_schema(struct ArrowSchema *out);
