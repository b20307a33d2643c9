/* The two passes over the rows. Everything that happens per row is inlined into one loop for each. */
#include "distribute.h"

#include <stdlib.h>

#include "murmur2.h"

static const struct producer nobody = {.id = -1, .base_sequence = -1, .epoch = -1, .transactional = 0};

static inline enum plan_error choose_partition(const struct segment *segment, int64_t row, struct bytes key,
                                               const struct plan_options *options, int64_t *partition)
{
    *partition = is_null(&segment->partition, row) ? -1 : read_integer(&segment->partition, row);
    if (*partition >= 0)
        return *partition < options->partitions ? PLAN_OK : PLAN_NO_SUCH_PARTITION;
    if (key.length >= 0)
        *partition = (murmur2(key.data, (size_t)key.length) & 0x7fffffff) % options->partitions;
    else
        *partition = options->unkeyed;
    return *partition >= 0 ? PLAN_OK : PLAN_NO_PARTITION;
}

static inline int choose_timestamp(const struct segment *segment, int64_t row, int64_t now, int64_t *timestamp)
{
    if (is_null(&segment->timestamp.values, row)) {
        *timestamp = now;
        return 0;
    }
    return read_milliseconds(&segment->timestamp, row, timestamp);
}

/* A null list is as good as an empty one: on the wire there is no difference. */
static inline void header_range(const struct header_column *headers, int64_t row, int64_t *begin, int64_t *end)
{
    if (is_null(&headers->lists, row))
        *begin = *end = 0;
    else
        read_range(&headers->lists, row, begin, end);
}

static enum plan_error headers_size(const struct header_column *headers, int64_t row, size_t *size, int64_t *which)
{
    int64_t begin, end;
    header_range(headers, row, &begin, &end);
    *size = varint_size(end - begin);
    for (int64_t at = begin; at < end; at++) {
        *which = at - begin;
        if (is_null(&headers->entries, at))
            return PLAN_HEADER_IS_NULL;
        struct bytes key = read_bytes(&headers->keys, at);
        if (key.length < 0)
            return PLAN_HEADER_NO_KEY;
        *size += bytes_size(key.length) + bytes_size(read_bytes(&headers->values, at).length);
    }
    return PLAN_OK;
}

static uint8_t *write_headers(uint8_t *p, const struct header_column *headers, int64_t row)
{
    int64_t begin, end;
    header_range(headers, row, &begin, &end);
    p = write_varint(p, end - begin);
    for (int64_t at = begin; at < end; at++) {
        p = write_bytes(p, read_bytes(&headers->keys, at));
        p = write_last_bytes(p, read_bytes(&headers->values, at));
    }
    return p;
}

static struct planned_batch *start_batch(struct plan *plan, int32_t partition, int64_t timestamp)
{
    if (plan->count == plan->capacity) {
        int32_t capacity = plan->capacity < 64 ? 64 : plan->capacity * 2;
        struct planned_batch *batches = realloc(plan->batches, (size_t)capacity * sizeof *batches);
        if (batches == NULL)
            return NULL;
        plan->batches = batches;
        plan->capacity = capacity;
    }
    struct planned_batch *batch = &plan->batches[plan->count++];
    memset(batch, 0, sizeof *batch);
    batch->partition = partition;
    batch->size = BATCH_OVERHEAD;
    batch->base_timestamp = batch->max_timestamp = timestamp;
    return batch;
}

static inline enum plan_error plan_row(struct plan *plan, const struct segment *segment, int64_t row,
                                       const struct plan_options *options, int32_t *open,
                                       struct placement *placement)
{
    enum plan_error error;
    int64_t partition, timestamp;
    size_t headers = 1; /* their number, zero */
    struct bytes key = read_bytes(&segment->key, row), value = read_bytes(&segment->value, row);
    if (is_null(&segment->rows, row))
        return PLAN_ROW_IS_NULL;
    if ((error = choose_partition(segment, row, key, options, &partition)) != PLAN_OK) {
        plan->number = partition;
        return error;
    }
    if (choose_timestamp(segment, row, options->now, &timestamp) < 0)
        return PLAN_TIMESTAMP_RANGE;
    if (segment->headers.lists.layout != LAYOUT_NULLS &&
        (error = headers_size(&segment->headers, row, &headers, &plan->number)) != PLAN_OK)
        return error;

    struct planned_batch *batch = open[partition] < 0 ? NULL : &plan->batches[open[partition]];
    int64_t delta = batch == NULL ? 0 : timestamp_delta(timestamp, batch->base_timestamp);
    size_t body = record_body_size(delta, batch == NULL ? 0 : batch->count, key.length, value.length, headers);
    size_t size = number_size((int64_t)body) + body;
    if (batch == NULL || batch->size + size > options->batch_size) {
        body = record_body_size(0, 0, key.length, value.length, headers);
        size = number_size((int64_t)body) + body;
        open[partition] = plan->count;
        if ((batch = start_batch(plan, (int32_t)partition, timestamp)) == NULL)
            return PLAN_NO_MEMORY;
    }
    if (BATCH_OVERHEAD + size > options->max_record_size) {
        plan->number = (int64_t)(BATCH_OVERHEAD + size);
        return PLAN_RECORD_TOO_LARGE;
    }
    batch->count++;
    batch->size += size;
    if (timestamp > batch->max_timestamp)
        batch->max_timestamp = timestamp;
    placement->batch = (int32_t)(batch - plan->batches);
    placement->body = (uint32_t)body;
    return PLAN_OK;
}

enum plan_error plan_rows(struct plan *plan, const struct segment *segments, int32_t segment_count,
                          const struct plan_options *options)
{
    int32_t *open = malloc((size_t)options->partitions * sizeof *open);
    if (open == NULL)
        return PLAN_NO_MEMORY;
    memset(open, 0xff, (size_t)options->partitions * sizeof *open); /* -1: none is open */
    enum plan_error error = PLAN_OK;
    plan->row = 0;
    for (int32_t i = 0; i < segment_count; i++)
        for (int64_t row = 0; row < segments[i].length; row++, plan->row++) {
            error = plan_row(plan, &segments[i], row, options, open, &plan->placements[plan->row]);
            if (error != PLAN_OK)
                goto done;
        }
done:
    free(open);
    return error;
}

static void finish(struct planned_batch *batch)
{
    size_t size = batch->size - BATCH_OVERHEAD;
    batch->crc = records_crc(batch->data + BATCH_OVERHEAD, size);
    write_header(batch->data, size, batch->crc, 0, &nobody, batch->count, batch->base_timestamp,
                 batch->max_timestamp);
}

void write_rows(struct plan *plan, const struct segment *segments, int32_t segment_count, int64_t now)
{
    for (int32_t i = 0; i < plan->count; i++)
        plan->batches[i].next = plan->batches[i].data + BATCH_OVERHEAD;
    int64_t total = 0;
    for (int32_t i = 0; i < segment_count; i++) {
        const struct segment *segment = &segments[i];
        for (int64_t row = 0; row < segment->length; row++, total++) {
            struct placement placement = plan->placements[total];
            struct planned_batch *batch = &plan->batches[placement.batch];
            int64_t timestamp;
            choose_timestamp(segment, row, now, &timestamp);
            uint8_t *p = write_record_front(batch->next, placement.body,
                                            timestamp_delta(timestamp, batch->base_timestamp), batch->written,
                                            read_bytes(&segment->key, row), read_bytes(&segment->value, row));
            if (segment->headers.lists.layout == LAYOUT_NULLS)
                *p++ = 0;
            else
                p = write_headers(p, &segment->headers, row);
            batch->next = p;
            if (batch->rows != NULL)
                batch->rows[batch->written] = (int32_t)total;
            if (++batch->written == batch->count)
                finish(batch);
        }
    }
}

void plan_free(struct plan *plan)
{
    free(plan->batches);
}
