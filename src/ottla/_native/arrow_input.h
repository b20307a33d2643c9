/* Arrow arrays as columns to read from: a column knows where row n is, whatever its layout, offset and nulls.
 *
 * Filling in a column (arrow_input.c) checks its type and happens once per chunk; reading it is inline and happens
 * per row. Arrays are borrowed: whoever made the columns keeps them alive. What is read is what a valid array
 * says; arrays that contradict themselves are the exporter's fault, as everywhere in Arrow. */
#pragma once

#include "arrow_abi.h"
#include "writer.h"

enum layout {
    LAYOUT_NULLS,     /* no values at all: an absent column, or one of type null */
    LAYOUT_OFFSETS32, /* bytes, lists */
    LAYOUT_OFFSETS64,
    LAYOUT_VIEWS,
    LAYOUT_INT8, /* integers */
    LAYOUT_INT16,
    LAYOUT_INT32,
    LAYOUT_INT64,
};

/* One array. `first` is where row 0 stands in its buffers: the array's own offset and that of its parents. */
struct column {
    enum layout layout;
    int64_t first;
    const uint8_t *validity; /* NULL: nothing is null */
    const uint8_t *values;   /* offsets, views or integers */
    const uint8_t *bytes;
    const void **blocks; /* what views point into */
};

/* Milliseconds are value * multiplier / divisor. */
struct time_column {
    struct column values;
    int64_t multiplier, divisor;
};

/* Lists of structs with a key and a value. */
struct header_column {
    struct column lists;
    struct column entries;
    struct column keys, values;
};

/* A run of rows for which no column changes its chunk. */
struct segment {
    int64_t length;
    struct column rows; /* of the struct around the columns: only its nulls matter */
    struct column key, value, partition;
    struct time_column timestamp;
    struct header_column headers;
};

/* These return 0, or -1 when the type is not one they take. `parent` is where row 0 of the segment stands in the
 * array before the array's own offset is added. */
int bytes_column(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                 int64_t parent);
int partition_column(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                     int64_t parent);
int time_column(struct time_column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                int64_t parent);
int header_column(struct header_column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                  int64_t parent);

/* Of the struct around the columns, which may have nulls; without one (array is NULL) no row is null. */
void row_column(struct column *column, const struct ArrowArray *array, int64_t parent);

static inline int is_null(const struct column *column, int64_t row)
{
    if (column->validity == NULL)
        return column->layout == LAYOUT_NULLS;
    int64_t at = column->first + row;
    return !(column->validity[at >> 3] >> (at & 7) & 1);
}

/* Buffers of a valid array may stand at any address, so they are read without assuming an alignment. */
static inline int32_t read_int32(const uint8_t *values, int64_t at)
{
    int32_t value;
    memcpy(&value, values + 4 * at, sizeof value);
    return value;
}

static inline int64_t read_int64(const uint8_t *values, int64_t at)
{
    int64_t value;
    memcpy(&value, values + 8 * at, sizeof value);
    return value;
}

/* Where list or value `row` begins and ends in what it is made of. */
static inline void read_range(const struct column *column, int64_t row, int64_t *begin, int64_t *end)
{
    int64_t at = column->first + row;
    if (column->layout == LAYOUT_OFFSETS32) {
        *begin = read_int32(column->values, at);
        *end = read_int32(column->values, at + 1);
    } else {
        *begin = read_int64(column->values, at);
        *end = read_int64(column->values, at + 1);
    }
}

static inline struct bytes read_view(const struct column *column, int64_t row)
{
    enum { VIEW = 16, INLINE_MOST = 12, INLINE_AT = 4, BLOCK = 2, OFFSET = 3 };
    const uint8_t *view = column->values + VIEW * (column->first + row);
    int32_t length = read_int32(view, 0);
    if (length <= INLINE_MOST)
        return (struct bytes){view + INLINE_AT, length};
    const uint8_t *block = column->blocks[read_int32(view, BLOCK)];
    return (struct bytes){block + read_int32(view, OFFSET), length};
}

static inline struct bytes read_bytes(const struct column *column, int64_t row)
{
    if (is_null(column, row))
        return (struct bytes){NULL, -1};
    if (column->layout == LAYOUT_VIEWS)
        return read_view(column, row);
    int64_t begin, end;
    read_range(column, row, &begin, &end);
    return (struct bytes){column->bytes + begin, end - begin};
}

static inline int64_t read_integer(const struct column *column, int64_t row)
{
    int64_t at = column->first + row;
    int16_t value;
    switch (column->layout) {
    case LAYOUT_INT8:
        return (int8_t)column->values[at];
    case LAYOUT_INT16:
        memcpy(&value, column->values + 2 * at, sizeof value);
        return value;
    case LAYOUT_INT32:
        return read_int32(column->values, at);
    default:
        return read_int64(column->values, at);
    }
}

/* Milliseconds, rounded towards the past; -1 when they do not fit into 64 bits. The row is not null. */
static inline int read_milliseconds(const struct time_column *column, int64_t row, int64_t *milliseconds)
{
    int64_t value = read_integer(&column->values, row);
    if (column->divisor != 1)
        value = value / column->divisor - (value % column->divisor < 0);
    return __builtin_mul_overflow(value, column->multiplier, milliseconds) ? -1 : 0;
}
