/* Arrow arrays as columns to read from: a column knows where row n is, whatever its layout, offset and nulls.
 *
 * Filling in a column (arrow_input.c) checks its type and happens once per chunk; reading it is inline and happens
 * per row. Arrays are borrowed: the maker of the columns keeps them alive. What is read is what a valid array
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
    LAYOUT_UINT8, /* these only as indices of a dictionary */
    LAYOUT_UINT16,
    LAYOUT_UINT32,
};

/* Which value of a dictionary each row has. LAYOUT_NULLS: there is no dictionary. */
struct indices {
    enum layout layout;
    int64_t first;
    const uint8_t *validity;
    const uint8_t *values;
};

/* One array. `first` is where row 0 stands in its buffers: the array's own offset and that of its parents. With a
 * dictionary, all of it is about the dictionary's values, and `indices` about the rows. */
struct column {
    enum layout layout;
    int64_t first;
    const uint8_t *validity; /* NULL: nothing is null */
    const uint8_t *values;   /* offsets, views or integers */
    const uint8_t *bytes;
    const void **blocks; /* what views point into */
    struct indices indices;
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

/* Of an array whose type has been checked; what `bytes` is, is left to the caller. */
void place_column(struct column *column, enum layout layout, const struct ArrowArray *array, int64_t parent);

/* Of the struct around the columns, which may have nulls; without one (array is NULL) no row is null. */
void row_column(struct column *column, const struct ArrowArray *array, int64_t parent);

/* Leaves out the first rows of a column. */
static inline void skip_rows(struct column *column, int64_t rows)
{
    if (column->indices.layout != LAYOUT_NULLS)
        column->indices.first += rows;
    else
        column->first += rows;
}

static inline int is_set(const uint8_t *bits, int64_t at)
{
    return bits[at >> 3] >> (at & 7) & 1;
}

static inline int is_null(const struct column *column, int64_t row)
{
    if (column->validity == NULL)
        return column->layout == LAYOUT_NULLS;
    return !is_set(column->validity, column->first + row);
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

static inline int64_t read_number(enum layout layout, const uint8_t *values, int64_t at)
{
    int16_t value;
    switch (layout) {
    case LAYOUT_INT8:
        return (int8_t)values[at];
    case LAYOUT_UINT8:
        return values[at];
    case LAYOUT_INT16:
    case LAYOUT_UINT16:
        memcpy(&value, values + 2 * at, sizeof value);
        return layout == LAYOUT_INT16 ? value : (uint16_t)value;
    case LAYOUT_INT32:
        return read_int32(values, at);
    case LAYOUT_UINT32:
        return (uint32_t)read_int32(values, at);
    default:
        return read_int64(values, at);
    }
}

static inline struct bytes read_bytes(const struct column *column, int64_t row)
{
    const struct indices *indices = &column->indices;
    if (indices->layout != LAYOUT_NULLS) {
        int64_t at = indices->first + row;
        if (indices->validity != NULL && !is_set(indices->validity, at))
            return (struct bytes){NULL, -1};
        row = read_number(indices->layout, indices->values, at);
    }
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
    return read_number(column->layout, column->values, column->first + row);
}

/* Milliseconds, rounded towards the past; -1 when they do not fit into 64 bits. The row is not null. */
static inline int read_milliseconds(const struct time_column *column, int64_t row, int64_t *milliseconds)
{
    int64_t value = read_integer(&column->values, row);
    if (column->divisor != 1)
        value = value / column->divisor - (value % column->divisor < 0);
    return __builtin_mul_overflow(value, column->multiplier, milliseconds) ? -1 : 0;
}
