/* The passes over the rows. Everything that happens per row is inlined into one loop for each pass, and there are
 * several of each: one for any columns, and one for each usual set of them, in which most conditions on a row are
 * decided before it starts. */
#include "distribute.h"

#include <stdlib.h>

#include "murmur2.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static const struct producer nobody = {.id = -1, .base_sequence = -1, .epoch = -1, .transactional = 0};

/* The usual columns: values without nulls in the usual layout; the same of keys, and a partition in every row, or none
 * of them at all; and nothing else. */
enum usual { VALUES = 0, KEYS = 1, PARTITIONS = 2, UNUSUAL = -1 };

static int is_absent(const struct column *column)
{
    return column->layout == LAYOUT_NULLS && column->validity == NULL && column->indices.layout == LAYOUT_NULLS;
}

static int is_usual(const struct column *column)
{
    return column->layout == LAYOUT_OFFSETS32 && column->validity == NULL && column->indices.layout == LAYOUT_NULLS;
}

static int which_columns(const struct segment *segment)
{
    int which = VALUES;
    if (!is_usual(&segment->value) || segment->timestamp.values.layout != LAYOUT_NULLS ||
        segment->headers.lists.layout != LAYOUT_NULLS || segment->rows.validity != NULL)
        return UNUSUAL;
    if (is_usual(&segment->key))
        which |= KEYS;
    else if (!is_absent(&segment->key))
        return UNUSUAL;
    if (segment->partition.layout != LAYOUT_NULLS && segment->partition.validity == NULL)
        which |= PARTITIONS;
    else if (!is_absent(&segment->partition))
        return UNUSUAL;
    return which;
}

/* The same segment, in a form that shows the compiler what which_columns() has found: the flags are constants where
 * it is called. */
ALWAYS_INLINE struct segment known(const struct segment *segment, int which)
{
    struct segment known = {.length = segment->length};
    known.rows.layout = LAYOUT_INT8; /* any but LAYOUT_NULLS */
    known.value.layout = LAYOUT_OFFSETS32;
    known.value.first = segment->value.first;
    known.value.values = segment->value.values;
    known.value.bytes = segment->value.bytes;
    if (which & KEYS) {
        known.key.layout = LAYOUT_OFFSETS32;
        known.key.first = segment->key.first;
        known.key.values = segment->key.values;
        known.key.bytes = segment->key.bytes;
    }
    if (which & PARTITIONS) {
        known.partition.layout = segment->partition.layout;
        known.partition.first = segment->partition.first;
        known.partition.values = segment->partition.values;
    }
    return known;
}

/* The partition that a row names; -1 for one that is null. */
ALWAYS_INLINE enum plan_error named_partition(const struct segment *segment, int64_t row,
                                              const struct plan_options *options, int64_t *partition)
{
    *partition = -1;
    if (is_null(&segment->partition, row))
        return PLAN_OK;
    *partition = read_integer(&segment->partition, row);
    if (*partition < 0)
        return PLAN_NEGATIVE_PARTITION;
    return *partition < options->partitions ? PLAN_OK : PLAN_NO_SUCH_PARTITION;
}

ALWAYS_INLINE enum plan_error choose_partition(const struct segment *segment, int64_t row, struct bytes key,
                                               const struct plan_options *options, int64_t *partition)
{
    enum plan_error error = named_partition(segment, row, options, partition);
    if (error != PLAN_OK || *partition >= 0)
        return error;
    if (key.length >= 0 && !options->ignore_keys)
        *partition = (murmur2(key.data, (size_t)key.length) & 0x7fffffff) % options->partitions;
    else
        *partition = options->unkeyed;
    return *partition >= 0 ? PLAN_OK : PLAN_NO_PARTITION;
}

ALWAYS_INLINE int choose_timestamp(const struct segment *segment, int64_t row, int64_t now, int64_t *timestamp)
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
    *size = zigzag_size(end - begin);
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
    p = write_zigzag(p, end - begin);
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

ALWAYS_INLINE enum plan_error plan_row(struct plan *plan, const struct segment *segment, int64_t row,
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
    if (timestamp < 0) {
        plan->number = timestamp;
        return PLAN_TIMESTAMP_NEGATIVE;
    }
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

ALWAYS_INLINE enum plan_error plan_segment(struct plan *plan, const struct segment *segment,
                                           const struct plan_options *options, int32_t *open)
{
    struct placement *placements = plan->placements + plan->row;
    for (int64_t row = 0; row < segment->length; row++, plan->row++) {
        enum plan_error error = plan_row(plan, segment, row, options, open, &placements[row]);
        if (error != PLAN_OK)
            return error;
    }
    return PLAN_OK;
}

/* A pass over a segment, by the loop for its columns. */
#define WITH_KNOWN_COLUMNS(pass, target, segment, ...)                                                               \
    switch (which_columns(segment)) {                                                                                \
    case VALUES: {                                                                                                   \
        const struct segment columns = known(segment, VALUES);                                                       \
        return pass(target, &columns, __VA_ARGS__);                                                                  \
    }                                                                                                                \
    case KEYS: {                                                                                                     \
        const struct segment columns = known(segment, KEYS);                                                         \
        return pass(target, &columns, __VA_ARGS__);                                                                  \
    }                                                                                                                \
    case PARTITIONS: {                                                                                               \
        const struct segment columns = known(segment, PARTITIONS);                                                   \
        return pass(target, &columns, __VA_ARGS__);                                                                  \
    }                                                                                                                \
    case KEYS | PARTITIONS: {                                                                                        \
        const struct segment columns = known(segment, KEYS | PARTITIONS);                                            \
        return pass(target, &columns, __VA_ARGS__);                                                                  \
    }                                                                                                                \
    default:                                                                                                         \
        return pass(target, segment, __VA_ARGS__);                                                                   \
    }

static enum plan_error plan_by_columns(struct plan *plan, const struct segment *segment,
                                       const struct plan_options *options, int32_t *open)
{
    WITH_KNOWN_COLUMNS(plan_segment, plan, segment, options, open)
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
    for (int32_t i = 0; i < segment_count && error == PLAN_OK; i++)
        error = plan_by_columns(plan, &segments[i], options, open);
    free(open);
    return error;
}

/* Both for the row's deltas of time and offset, which only the batch that it gets into decides, and for the fact
 * that a short record takes more than its bytes. */
enum { ROW_MARGIN = 8 };

/* All that can be wrong with a row, and about what its record takes; what depends on the batch that it will be in is
 * left to the plan. */
ALWAYS_INLINE enum plan_error measure_row(struct slicing *slicing, const struct segment *segment, int64_t row,
                                          const struct plan_options *options, size_t *size)
{
    enum plan_error error;
    int64_t partition, timestamp;
    size_t headers = 1;
    struct bytes key = read_bytes(&segment->key, row), value = read_bytes(&segment->value, row);
    if (is_null(&segment->rows, row))
        return PLAN_ROW_IS_NULL;
    if ((error = named_partition(segment, row, options, &partition)) != PLAN_OK) {
        slicing->number = partition;
        return error;
    }
    if (partition < 0 && options->unkeyed < 0 && (key.length < 0 || options->ignore_keys))
        return PLAN_NO_PARTITION;
    if (choose_timestamp(segment, row, 0, &timestamp) < 0)
        return PLAN_TIMESTAMP_RANGE;
    if (timestamp < 0) {
        slicing->number = timestamp;
        return PLAN_TIMESTAMP_NEGATIVE;
    }
    if (segment->headers.lists.layout != LAYOUT_NULLS &&
        (error = headers_size(&segment->headers, row, &headers, &slicing->number)) != PLAN_OK)
        return error;
    size_t body = record_body_size(0, 0, key.length, value.length, headers);
    size_t alone = BATCH_OVERHEAD + number_size((int64_t)body) + body;
    slicing->number = (int64_t)alone;
    if (alone > options->max_record_size)
        return PLAN_RECORD_TOO_LARGE;
    if (alone > slicing->buffer)
        return PLAN_RECORD_NEVER_FITS;
    *size = alone - BATCH_OVERHEAD + ROW_MARGIN;
    return PLAN_OK;
}

static struct slice *next_slice(struct slicing *slicing)
{
    if (slicing->count == slicing->capacity) {
        int64_t capacity = slicing->capacity < 16 ? 16 : slicing->capacity * 2;
        struct slice *slices = realloc(slicing->slices, (size_t)capacity * sizeof *slices);
        if (slices == NULL)
            return NULL;
        slicing->slices = slices;
        slicing->capacity = capacity;
    }
    struct slice *slice = &slicing->slices[slicing->count++];
    *slice = (struct slice){.first = slicing->row};
    return slice;
}

ALWAYS_INLINE enum plan_error measure_segment(struct slicing *slicing, const struct segment *segment,
                                              const struct plan_options *options)
{
    struct slice *slice = slicing->count == 0 ? NULL : &slicing->slices[slicing->count - 1];
    for (int64_t row = 0; row < segment->length; row++, slicing->row++) {
        size_t size;
        enum plan_error error = measure_row(slicing, segment, row, options, &size);
        if (error != PLAN_OK)
            return error;
        if (slice == NULL || slice->count == slicing->most_rows || slice->size + size > slicing->most_bytes)
            if ((slice = next_slice(slicing)) == NULL)
                return PLAN_NO_MEMORY;
        slice->count++;
        slice->size += size;
    }
    return PLAN_OK;
}

static enum plan_error measure_by_columns(struct slicing *slicing, const struct segment *segment,
                                          const struct plan_options *options)
{
    WITH_KNOWN_COLUMNS(measure_segment, slicing, segment, options)
}

enum plan_error measure_rows(struct slicing *slicing, const struct segment *segments, int32_t segment_count,
                             const struct plan_options *options)
{
    enum plan_error error = PLAN_OK;
    for (int32_t i = 0; i < segment_count && error == PLAN_OK; i++)
        error = measure_by_columns(slicing, &segments[i], options);
    return error;
}

int all_name_partitions(const struct segment *segments, int32_t segment_count)
{
    for (int32_t i = 0; i < segment_count; i++)
        if (segments[i].partition.layout == LAYOUT_NULLS || segments[i].partition.validity != NULL)
            return 0;
    return 1;
}

int32_t select_rows(struct segment *selected, const struct segment *segments, int64_t first, int64_t count)
{
    int32_t used = 0;
    for (; count > 0; segments++) {
        if (first >= segments->length) {
            first -= segments->length;
            continue;
        }
        struct segment *part = &selected[used++];
        *part = *segments;
        part->length = segments->length - first < count ? segments->length - first : count;
        skip_rows(&part->rows, first);
        skip_rows(&part->key, first);
        skip_rows(&part->value, first);
        skip_rows(&part->partition, first);
        skip_rows(&part->timestamp.values, first);
        skip_rows(&part->headers.lists, first);
        count -= part->length;
        first = 0;
    }
    return used;
}

static void finish(struct planned_batch *batch)
{
    size_t size = batch->size - BATCH_OVERHEAD;
    batch->crc = records_crc(batch->data + BATCH_OVERHEAD, size);
    write_header(batch->data, size, batch->crc, 0, &nobody, batch->count, batch->base_timestamp,
                 batch->max_timestamp);
}

/* `before` is the number of rows in front of the segment. */
ALWAYS_INLINE void write_segment(struct plan *plan, const struct segment *segment, int64_t before, int64_t now)
{
    for (int64_t row = 0; row < segment->length; row++) {
        struct placement placement = plan->placements[before + row];
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
            batch->rows[batch->written] = (int32_t)(before + row);
        if (++batch->written == batch->count)
            finish(batch);
    }
}

static void write_by_columns(struct plan *plan, const struct segment *segment, int64_t before, int64_t now)
{
    WITH_KNOWN_COLUMNS(write_segment, plan, segment, before, now)
}

void write_rows(struct plan *plan, const struct segment *segments, int32_t segment_count, int64_t now)
{
    for (int32_t i = 0; i < plan->count; i++)
        plan->batches[i].next = plan->batches[i].data + BATCH_OVERHEAD;
    int64_t before = 0;
    for (int32_t i = 0; i < segment_count; i++) {
        write_by_columns(plan, &segments[i], before, now);
        before += segments[i].length;
    }
}

void plan_free(struct plan *plan)
{
    free(plan->batches);
}
