/* Gathering scanned records into columns in the layout of Arrow.
 *
 * All buffers of all columns lie in one block, so that one allocation, and one owner, serve them all. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "scan.h"

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
    int32_t *header_offsets;
    struct binary_column header_key;
    struct binary_column header_value;
};

/* How many bytes the columns of this scan need; with `block` given, where each of them goes. */
size_t columns_place(const struct scan *scan, size_t topic_length, uint8_t *block, struct columns *columns);

/* Fills the columns; `timestamp_factor` turns milliseconds into the unit that is wanted. */
void columns_fill(const struct scan *scan, const char *topic, size_t topic_length, int32_t partition,
                  int64_t timestamp_factor, struct columns *columns);
