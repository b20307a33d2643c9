#include "columns.h"

#include <string.h>

/* Arrow recommends it, and SIMD loads like it. */
enum { ALIGNMENT = 64 };

static void *place(uint8_t *block, size_t *used, size_t size)
{
    void *at = block == NULL ? NULL : block + *used;
    *used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static void place_binary(uint8_t *block, size_t *used, size_t rows, size_t bytes, struct binary_column *column)
{
    column->validity = place(block, used, (rows + 7) / 8);
    column->offsets = place(block, used, (rows + 1) * sizeof(int32_t));
    column->data = place(block, used, bytes);
    column->null_count = 0;
}

size_t columns_place(const struct scan *scan, size_t topic_length, uint8_t *block, struct columns *columns)
{
    size_t used = 0, rows = scan->count;
    place_binary(block, &used, rows, scan->key_bytes, &columns->key);
    place_binary(block, &used, rows, scan->value_bytes, &columns->value);
    place_binary(block, &used, rows, rows * topic_length, &columns->topic);
    columns->partition = place(block, &used, rows * sizeof(int32_t));
    columns->offset = place(block, &used, rows * sizeof(int64_t));
    columns->timestamp = place(block, &used, rows * sizeof(int64_t));
    columns->timestamp_type = place(block, &used, rows * sizeof(int32_t));
    columns->header_offsets = place(block, &used, (rows + 1) * sizeof(int32_t));
    place_binary(block, &used, scan->header_count, scan->header_key_bytes, &columns->header_key);
    place_binary(block, &used, scan->header_count, scan->header_value_bytes, &columns->header_value);
    return used;
}

static void mark_null(struct binary_column *column, size_t row)
{
    column->validity[row / 8] &= (uint8_t) ~(1u << (row % 8));
    column->null_count++;
}

static inline int32_t put(struct binary_column *column, size_t row, int32_t at, const uint8_t *bytes, int32_t length)
{
    column->offsets[row] = at;
    if (__builtin_expect(length < 0, 0)) {
        mark_null(column, row);
        return at;
    }
    memcpy(column->data + at, bytes, (size_t)length);
    return at + length;
}

/* The same name in every row: copied once, then in ever larger pieces. */
static void fill_topic(const char *topic, size_t length, size_t rows, struct binary_column *column)
{
    for (size_t row = 0; row <= rows; row++)
        column->offsets[row] = (int32_t)(row * length);
    size_t done = 0, total = rows * length;
    if (total == 0)
        return;
    memcpy(column->data, topic, length);
    for (done = length; done < total;) {
        size_t piece = done < total - done ? done : total - done;
        memcpy(column->data + done, column->data, piece);
        done += piece;
    }
}

static void fill_headers(const struct scan *scan, struct columns *columns)
{
    size_t row = 0;
    int32_t key_at = 0, value_at = 0;
    memset(columns->header_value.validity, 0xff, (scan->header_count + 7) / 8);
    for (size_t i = 0; i < scan->count; i++) {
        const struct record *record = &scan->records[i];
        columns->header_offsets[i] = (int32_t)row;
        const uint8_t *p = record->key + record->headers_at;
        for (int32_t n = record_header_count(record); n > 0; n--, row++) {
            const uint8_t *key, *value;
            int32_t key_length, value_length;
            /* The scan has been here before and knows that the bytes are headers: no end is needed. */
            p = scan_header(p, p + INT32_MAX, &key, &key_length, &value, &value_length);
            key_at = put(&columns->header_key, row, key_at, key, key_length);
            value_at = put(&columns->header_value, row, value_at, value, value_length);
        }
    }
    columns->header_offsets[scan->count] = (int32_t)row;
    columns->header_key.offsets[row] = key_at;
    columns->header_value.offsets[row] = value_at;
}

void columns_fill(const struct scan *scan, const char *topic, size_t topic_length, int32_t partition,
                  int64_t timestamp_factor, struct columns *columns)
{
    size_t rows = scan->count;
    int32_t key_at = 0, value_at = 0;
    memset(columns->key.validity, 0xff, (rows + 7) / 8);
    memset(columns->value.validity, 0xff, (rows + 7) / 8);
    for (size_t i = 0; i < rows; i++) {
        const struct record *record = &scan->records[i];
        key_at = put(&columns->key, i, key_at, record->key, record->key_length);
        value_at = put(&columns->value, i, value_at, record->key + record->value_at, record->value_length);
        columns->partition[i] = partition;
        columns->offset[i] = record->offset;
        columns->timestamp[i] = (int64_t)((uint64_t)record->timestamp * (uint64_t)timestamp_factor);
        columns->timestamp_type[i] = record_timestamp_type(record);
    }
    columns->key.offsets[rows] = key_at;
    columns->value.offsets[rows] = value_at;
    fill_topic(topic, topic_length, rows, &columns->topic);
    if (scan->header_count > 0) {
        fill_headers(scan, columns);
    } else {
        memset(columns->header_offsets, 0, (rows + 1) * sizeof(int32_t));
        columns->header_key.offsets[0] = columns->header_value.offsets[0] = 0;
    }
}
