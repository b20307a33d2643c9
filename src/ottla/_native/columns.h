/* Gathering scanned records into columns in the layout of Arrow.
 *
 * A run of records is measured, the columns that are requested are placed in one block, so that one allocation and one
 * owner serve them all, and they are filled. A column that is not requested is neither placed nor filled. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "scan.h"

enum column {
    COLUMN_KEY,
    COLUMN_VALUE,
    COLUMN_TOPIC,
    COLUMN_PARTITION,
    COLUMN_OFFSET,
    COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_TYPE,
    COLUMN_HEADERS,
    COLUMN_COUNT,
};

/* Which columns, in this order, and how. */
struct layout {
    enum column order[COLUMN_COUNT];
    int count;
    int64_t timestamp_factor; /* turns milliseconds into the unit that is wanted */
    const char *timestamp_format;
    int nullable; /* every field may be null, and a record without headers has null instead of an empty list */
};

/* Consecutive records, and how much they hold. */
struct run {
    const struct record *records;
    size_t count;
    size_t key_bytes;
    size_t value_bytes;
    size_t header_count;
    size_t header_key_bytes;
    size_t header_value_bytes;
};

/* A column of variable size: offsets, bytes and, where something is null, a bitmap. */
struct binary_column {
    uint8_t *validity;
    int32_t *offsets;
    uint8_t *data;
    int64_t null_count;
};

struct columns {
    struct binary_column key;
    struct binary_column value;
    struct binary_column topic;
    int32_t *partition;
    int64_t *offset;
    int64_t *timestamp;
    int32_t *timestamp_type;
    uint8_t *header_validity;
    int32_t *header_offsets;
    int64_t header_null_count;
    struct binary_column header_key;
    struct binary_column header_value;
};

/* `count` records from `first` on. What headers hold is found out only where their column is requested. */
void columns_measure(const struct scan *scan, size_t first, size_t count, int with_headers, struct run *run);

/* How many records from `first` on have keys and values of at most `bytes` bytes, and are no more than `most`; one at
 * least, if there is one. */
size_t columns_fit(const struct scan *scan, size_t first, size_t most, size_t bytes);

/* How many bytes the columns need; with `block` given, where each of them goes. */
size_t columns_place(const struct run *run, const struct layout *layout, size_t topic_length, uint8_t *block,
                     struct columns *columns);

void columns_fill(const struct run *run, const struct layout *layout, const char *topic, size_t topic_length,
                  int32_t partition, struct columns *columns);
