#include "columns.h"

#include <string.h>

/* Arrow recommends it, and SIMD loads like it. */
enum { ALIGNMENT = 64 };

/* Measuring */

static inline size_t bytes_of(int32_t length)
{
    return length > 0 ? (size_t)length : 0;
}

static void measure_headers(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct record *record = &run->records[i];
        const uint8_t *p = record->key + record->headers_at;
        for (int32_t n = record_header_count(record); n > 0; n--) {
            const uint8_t *key, *value;
            int32_t key_length, value_length;
            /* The scan has been here before and knows that the bytes are headers: no end is needed. */
            p = scan_header(p, p + INT32_MAX, &key, &key_length, &value, &value_length);
            run->header_count++;
            run->header_key_bytes += bytes_of(key_length);
            run->header_value_bytes += bytes_of(value_length);
        }
    }
}

void columns_measure(const struct scan *scan, size_t first, size_t count, int with_headers, struct run *run)
{
    *run = (struct run){.records = scan->records + first, .count = count};
    if (count == scan->count) {
        run->key_bytes = scan->key_bytes;
        run->value_bytes = scan->value_bytes;
        run->header_count = scan->header_count;
        run->header_key_bytes = scan->header_key_bytes;
        run->header_value_bytes = scan->header_value_bytes;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        run->key_bytes += bytes_of(run->records[i].key_length);
        run->value_bytes += bytes_of(run->records[i].value_length);
    }
    if (with_headers && scan->header_count > 0)
        measure_headers(run);
}

size_t columns_fit(const struct scan *scan, size_t first, size_t most, size_t bytes)
{
    size_t used = 0, count = 0, left = scan->count - first;
    if (most > left)
        most = left;
    for (; count < most; count++) {
        const struct record *record = &scan->records[first + count];
        used += bytes_of(record->key_length) + bytes_of(record->value_length);
        if (used > bytes && count > 0)
            break;
    }
    return count;
}

/* Placing */

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

static void place_headers(const struct run *run, uint8_t *block, size_t *used, struct columns *columns)
{
    columns->header_validity = place(block, used, (run->count + 7) / 8);
    columns->header_offsets = place(block, used, (run->count + 1) * sizeof(int32_t));
    columns->header_null_count = 0;
    place_binary(block, used, run->header_count, run->header_key_bytes, &columns->header_key);
    place_binary(block, used, run->header_count, run->header_value_bytes, &columns->header_value);
}

size_t columns_place(const struct run *run, const struct layout *layout, size_t topic_length, uint8_t *block,
                     struct columns *columns)
{
    size_t used = 0, rows = run->count;
    for (int i = 0; i < layout->count; i++) {
        switch (layout->order[i]) {
        case COLUMN_KEY: place_binary(block, &used, rows, run->key_bytes, &columns->key); break;
        case COLUMN_VALUE: place_binary(block, &used, rows, run->value_bytes, &columns->value); break;
        case COLUMN_TOPIC: place_binary(block, &used, rows, rows * topic_length, &columns->topic); break;
        case COLUMN_PARTITION: columns->partition = place(block, &used, rows * sizeof(int32_t)); break;
        case COLUMN_OFFSET: columns->offset = place(block, &used, rows * sizeof(int64_t)); break;
        case COLUMN_TIMESTAMP: columns->timestamp = place(block, &used, rows * sizeof(int64_t)); break;
        case COLUMN_TIMESTAMP_TYPE: columns->timestamp_type = place(block, &used, rows * sizeof(int32_t)); break;
        case COLUMN_HEADERS: place_headers(run, block, &used, columns); break;
        case COLUMN_COUNT: break;
        }
    }
    return used;
}

/* Filling */

static void mark_null(uint8_t *validity, size_t row)
{
    validity[row / 8] &= (uint8_t) ~(1u << (row % 8));
}

static inline int32_t put(struct binary_column *column, size_t row, int32_t at, const uint8_t *bytes, int32_t length)
{
    column->offsets[row] = at;
    if (__builtin_expect(length < 0, 0)) {
        mark_null(column->validity, row);
        column->null_count++;
        return at;
    }
    memcpy(column->data + at, bytes, (size_t)length);
    return at + length;
}

static void fill_keys(const struct run *run, struct binary_column *column)
{
    int32_t at = 0;
    memset(column->validity, 0xff, (run->count + 7) / 8);
    for (size_t i = 0; i < run->count; i++)
        at = put(column, i, at, run->records[i].key, run->records[i].key_length);
    column->offsets[run->count] = at;
}

static void fill_values(const struct run *run, struct binary_column *column)
{
    int32_t at = 0;
    memset(column->validity, 0xff, (run->count + 7) / 8);
    for (size_t i = 0; i < run->count; i++) {
        const struct record *record = &run->records[i];
        at = put(column, i, at, record->key + record->value_at, record->value_length);
    }
    column->offsets[run->count] = at;
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

static void fill_no_headers(size_t rows, struct columns *columns)
{
    memset(columns->header_validity, 0, (rows + 7) / 8);
    memset(columns->header_offsets, 0, (rows + 1) * sizeof(int32_t));
    columns->header_key.offsets[0] = columns->header_value.offsets[0] = 0;
    columns->header_null_count = (int64_t)rows;
}

static void fill_headers(const struct run *run, struct columns *columns)
{
    size_t row = 0;
    int32_t key_at = 0, value_at = 0;
    memset(columns->header_validity, 0xff, (run->count + 7) / 8);
    memset(columns->header_value.validity, 0xff, (run->header_count + 7) / 8);
    for (size_t i = 0; i < run->count; i++) {
        const struct record *record = &run->records[i];
        columns->header_offsets[i] = (int32_t)row;
        const uint8_t *p = record->key + record->headers_at;
        int32_t n = record_header_count(record);
        if (n == 0) {
            mark_null(columns->header_validity, i);
            columns->header_null_count++;
        }
        for (; n > 0; n--, row++) {
            const uint8_t *key, *value;
            int32_t key_length, value_length;
            p = scan_header(p, p + INT32_MAX, &key, &key_length, &value, &value_length);
            key_at = put(&columns->header_key, row, key_at, key, key_length);
            value_at = put(&columns->header_value, row, value_at, value, value_length);
        }
    }
    columns->header_offsets[run->count] = (int32_t)row;
    columns->header_key.offsets[row] = key_at;
    columns->header_value.offsets[row] = value_at;
}

void columns_fill(const struct run *run, const struct layout *layout, const char *topic, size_t topic_length,
                  int32_t partition, struct columns *columns)
{
    size_t rows = run->count;
    const struct record *records = run->records;
    uint64_t factor = (uint64_t)layout->timestamp_factor;
    for (int column = 0; column < layout->count; column++) {
        switch (layout->order[column]) {
        case COLUMN_KEY: fill_keys(run, &columns->key); break;
        case COLUMN_VALUE: fill_values(run, &columns->value); break;
        case COLUMN_TOPIC: fill_topic(topic, topic_length, rows, &columns->topic); break;
        case COLUMN_PARTITION:
            for (size_t i = 0; i < rows; i++)
                columns->partition[i] = partition;
            break;
        case COLUMN_OFFSET:
            for (size_t i = 0; i < rows; i++)
                columns->offset[i] = records[i].offset;
            break;
        case COLUMN_TIMESTAMP:
            for (size_t i = 0; i < rows; i++)
                columns->timestamp[i] = (int64_t)((uint64_t)records[i].timestamp * factor);
            break;
        case COLUMN_TIMESTAMP_TYPE:
            for (size_t i = 0; i < rows; i++)
                columns->timestamp_type[i] = record_timestamp_type(&records[i]);
            break;
        case COLUMN_HEADERS:
            if (run->header_count > 0)
                fill_headers(run, columns);
            else
                fill_no_headers(rows, columns);
            break;
        case COLUMN_COUNT: break;
        }
    }
}
