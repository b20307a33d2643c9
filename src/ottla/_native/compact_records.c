#include "compact_records.h"

#include "batch.h"

struct record_view {
    const uint8_t *start; /* its length */
    const uint8_t *attributes;
    const uint8_t *rest; /* from the length of the key on */
    const uint8_t *end;
    int64_t timestamp_delta;
    int32_t offset_delta;
    const uint8_t *key;
    int32_t key_length;
    int has_value;
};

static const char *read_record(const uint8_t *p, const uint8_t *stop, struct record_view *record)
{
    int32_t length, value_length;
    record->start = p;
    p = read_zigzag32(p, stop, &length);
    if (p == NULL || length < 1 || length > stop - p)
        return "a record claims more bytes than there are";
    record->attributes = p;
    record->end = p + length;
    p = read_zigzag64(p + 1, record->end, &record->timestamp_delta);
    if (p == NULL || (p = read_zigzag32(p, record->end, &record->offset_delta)) == NULL)
        return "a record's timestamp or offset is damaged";
    record->rest = p;
    p = read_zigzag32(p, record->end, &record->key_length);
    if (p == NULL || record->key_length > record->end - p)
        return "a record's key is longer than the record";
    record->key = p;
    if (record->key_length > 0)
        p += record->key_length;
    p = read_zigzag32(p, record->end, &value_length);
    if (p == NULL || value_length > record->end - p)
        return "a record's value is longer than the record";
    record->has_value = value_length >= 0;
    return NULL;
}

static inline int64_t sum(int64_t base, int64_t delta)
{
    return (int64_t)((uint64_t)base + (uint64_t)delta);
}

static inline int64_t difference(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left - (uint64_t)right);
}

const char *map_records(struct offset_map *map, struct record_run *run, int64_t from_offset)
{
    const uint8_t *p = run->data, *end = run->data + run->size;
    struct record_view record;
    for (run->failed = 0; run->failed < run->count; run->failed++) {
        const char *problem = read_record(p, end, &record);
        if (problem != NULL)
            return problem;
        int64_t offset = sum(run->base_offset, record.offset_delta);
        if (record.key_length >= 0 && offset >= from_offset)
            offset_map_put(map, record.key, (size_t)record.key_length, offset);
        p = record.end;
    }
    return p == end ? NULL : "the batch has bytes behind its last record";
}

static inline int stays(const struct offset_map *map, const struct record_choice *choice,
                        const struct record_view *record, int64_t offset)
{
    if (offset > choice->latest_offset)
        return 1;
    /* A record without a key cannot be the latest of anything. */
    if (record->key_length < 0 || (choice->drops_tombstones && !record->has_value))
        return 0;
    return offset >= offset_map_get(map, record->key, (size_t)record->key_length);
}

const char *choose_records(const struct offset_map *map, struct record_run *run, struct record_choice *choice,
                           uint8_t *keeps)
{
    const uint8_t *p = run->data, *end = run->data + run->size;
    struct record_view record;
    choice->kept = choice->has_tombstones = 0;
    choice->first_timestamp = choice->max_timestamp = -1;
    for (run->failed = 0; run->failed < run->count; run->failed++) {
        const char *problem = read_record(p, end, &record);
        if (problem != NULL)
            return problem;
        int keep = stays(map, choice, &record, sum(run->base_offset, record.offset_delta));
        keeps[run->failed] = (uint8_t)keep;
        if (keep) {
            int64_t timestamp = sum(run->base_timestamp, record.timestamp_delta);
            if (choice->kept++ == 0)
                choice->first_timestamp = timestamp;
            if (timestamp > choice->max_timestamp)
                choice->max_timestamp = timestamp;
            choice->has_tombstones |= !record.has_value;
        }
        p = record.end;
    }
    return p == end ? NULL : "the batch has bytes behind its last record";
}

static inline size_t write_record(const struct record_view *record, int64_t timestamp_delta, uint8_t *out)
{
    size_t rest = (size_t)(record->end - record->rest);
    int64_t length = (int64_t)(1 + zigzag_size(timestamp_delta) + zigzag_size(record->offset_delta) + rest);
    if (out != NULL) {
        out = write_zigzag(out, length);
        *out++ = *record->attributes;
        out = write_zigzag(out, timestamp_delta);
        out = write_zigzag(out, record->offset_delta);
        memcpy(out, record->rest, rest);
    }
    return zigzag_size(length) + (size_t)length;
}

size_t write_records(const struct record_run *run, const uint8_t *keeps, int64_t base_timestamp,
                     const int64_t *timestamp, uint8_t *out)
{
    const uint8_t *p = run->data, *end = run->data + run->size;
    int same_deltas = timestamp == NULL && base_timestamp == run->base_timestamp;
    struct record_view record;
    size_t written = 0;
    /* They have been read before: none of them is damaged. */
    for (int32_t i = 0; i < run->count && read_record(p, end, &record) == NULL; i++, p = record.end) {
        if (!keeps[i])
            continue;
        uint8_t *at = out == NULL ? NULL : out + written;
        if (same_deltas) {
            size_t size = (size_t)(record.end - record.start);
            if (at != NULL)
                memcpy(at, record.start, size);
            written += size;
        } else {
            int64_t own = timestamp == NULL ? sum(run->base_timestamp, record.timestamp_delta) : *timestamp;
            written += write_record(&record, difference(own, base_timestamp), at);
        }
    }
    return written;
}
