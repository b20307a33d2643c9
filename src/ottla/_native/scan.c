#include "scan.h"

#include "batch.h"
#include "crc32c.h"

/* Length, attributes, timestamp, offset, key, value, headers: a byte each, at the least. */
enum { SMALLEST_RECORD = 7, CONTROL_ABORT = 0 };

/* No log gets here, and below it no sum of an offset and a delta overflows. */
#define LARGEST_OFFSET (INT64_MAX - ((int64_t)1 << 40))

size_t scan_estimate(const struct scan *scan)
{
    size_t records = 0, position = scan->position;
    while (scan->size - position >= BATCH_OVERHEAD) {
        const uint8_t *batch = scan->data + position;
        int32_t length = (int32_t)load32(batch + BATCH_LENGTH);
        if (length < BATCH_OVERHEAD - LOG_OVERHEAD || (size_t)length > scan->size - position - LOG_OVERHEAD)
            break;
        if (batch[BATCH_MAGIC] == 2 && (load16(batch + BATCH_ATTRIBUTES) & ATTRIBUTE_CODEC) == 0) {
            size_t most = ((size_t)length - (BATCH_OVERHEAD - LOG_OVERHEAD)) / SMALLEST_RECORD;
            int32_t count = (int32_t)load32(batch + BATCH_COUNT);
            if (count > 0)
                records += (size_t)count < most ? (size_t)count : most;
        }
        position += LOG_OVERHEAD + (size_t)length;
    }
    return records;
}

static enum scan_status bad(struct scan *scan, const char *problem)
{
    scan->problem = problem;
    return SCAN_BAD;
}

static enum scan_status leave(struct scan *scan)
{
    scan->position += scan->batch.size;
    scan->next_offset = scan->batch.next_offset;
    return SCAN_GO_ON;
}

/* Most numbers in a record are a single byte. */
static inline const uint8_t *read_int(const uint8_t *p, const uint8_t *end, int32_t *value)
{
    if (__builtin_expect(p < end && *p < 0x80, 1)) {
        *value = (int32_t)(*p >> 1) ^ -(int32_t)(*p & 1);
        return p + 1;
    }
    return read_zigzag32(p, end, value);
}

/* A length, and behind it that many bytes: `*p` moves to the first of them. Any negative length is null, as in
 * Kafka, and becomes -1. NULL where the bytes are not there; else where they end. */
static inline const uint8_t *read_bytes(const uint8_t **p, const uint8_t *end, int32_t *length)
{
    *p = read_int(*p, end, length);
    if (*p == NULL || *length > end - *p)
        return NULL;
    if (*length < 0) {
        *length = -1;
        return *p;
    }
    return *p + *length;
}

const uint8_t *scan_header(const uint8_t *p, const uint8_t *end, const uint8_t **key, int32_t *key_length,
                           const uint8_t **value, int32_t *value_length)
{
    *key = p;
    p = read_bytes(key, end, key_length);
    if (p == NULL || *key_length < 0)
        return NULL;
    *value = p;
    return read_bytes(value, end, value_length);
}

/* The headers of one record; adds up their sizes. NULL at bytes that are none. */
static const uint8_t *scan_headers(struct scan *scan, const uint8_t *p, const uint8_t *end, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *key, *value;
        int32_t key_length, value_length;
        p = scan_header(p, end, &key, &key_length, &value, &value_length);
        if (p == NULL)
            return NULL;
        scan->header_key_bytes += (uint64_t)key_length;
        scan->header_value_bytes += value_length < 0 ? 0 : (uint64_t)value_length;
    }
    scan->header_count += (uint64_t)count;
    return p;
}

static const char *scan_records(struct scan *scan, const uint8_t *p, const uint8_t *end)
{
    const struct scanned_batch *batch = &scan->batch;
    int append_time = (batch->attributes & ATTRIBUTE_LOG_APPEND_TIME) != 0;
    int control = batch->attributes & ATTRIBUTE_CONTROL;
    for (int32_t i = 0; i < batch->count; i++) {
        int32_t length, delta, key_length, value_length, headers;
        int64_t timestamp;
        p = read_int(p, end, &length);
        if (p == NULL || length < 0 || length > end - p)
            return "a record claims more bytes than there are";
        if (length == 0)
            return "a record is empty";
        const uint8_t *stop = p + length;
        /* The first byte are attributes, of which Kafka uses none. */
        p = read_zigzag64(p + 1, stop, &timestamp);
        if (p == NULL || (p = read_int(p, stop, &delta)) == NULL)
            return "a record's timestamp or offset is damaged";
        const uint8_t *key = p, *value;
        if ((value = read_bytes(&key, stop, &key_length)) == NULL)
            return "a record's key is longer than the record";
        if ((p = read_bytes(&value, stop, &value_length)) == NULL)
            return "a record's value is longer than the record";
        p = read_int(p, stop, &headers);
        if (p == NULL || headers < 0 || headers > stop - p || headers > MOST_HEADERS)
            return "a record has more headers than bytes";
        const uint8_t *first_header = p;
        uint64_t header_count = scan->header_count, header_keys = scan->header_key_bytes;
        uint64_t header_values = scan->header_value_bytes;
        if (headers > 0 && (p = scan_headers(scan, p, stop, headers)) == NULL)
            return "a record's headers are damaged";
        if (p != stop)
            return "a record has bytes behind its headers";
        int64_t offset = batch->base_offset + delta;
        if (offset < scan->wanted_offset) {
            scan->header_count = header_count;
            scan->header_key_bytes = header_keys;
            scan->header_value_bytes = header_values;
            continue;
        }
        struct record *record = &scan->records[scan->count++];
        record->offset = offset;
        record->timestamp = append_time ? batch->max_timestamp
                                        : (int64_t)((uint64_t)batch->base_timestamp + (uint64_t)timestamp);
        record->key = key;
        record->value_at = (uint32_t)(value - key);
        record->headers_at = (uint32_t)(first_header - key);
        record->key_length = key_length;
        record->value_length = value_length;
        record->headers_and_flags = record_headers_and_flags(headers, control, append_time);
        record->leader_epoch = batch->leader_epoch;
        scan->key_bytes += key_length < 0 ? 0 : (uint64_t)key_length;
        scan->value_bytes += value_length < 0 ? 0 : (uint64_t)value_length;
    }
    if (p != end)
        return "the batch has bytes behind its last record";
    return NULL;
}

/* Scans the records of the current batch; one that is damaged leaves no trace. */
static enum scan_status deliver(struct scan *scan, const uint8_t *data, size_t size)
{
    if (scan->room - scan->count < (size_t)scan->batch.count)
        return SCAN_NEEDS_ROOM;
    size_t count = scan->count;
    uint64_t sums[5] = {scan->key_bytes, scan->value_bytes, scan->header_count, scan->header_key_bytes,
                        scan->header_value_bytes};
    const char *problem = scan_records(scan, data, data + size);
    if (problem != NULL) {
        scan->count = count;
        scan->key_bytes = sums[0];
        scan->value_bytes = sums[1];
        scan->header_count = sums[2];
        scan->header_key_bytes = sums[3];
        scan->header_value_bytes = sums[4];
        return bad(scan, problem);
    }
    return leave(scan);
}

enum scan_status scan_decompressed(struct scan *scan, const uint8_t *data, size_t size)
{
    if ((size_t)scan->batch.count > size / SMALLEST_RECORD)
        return bad(scan, "the batch claims more records than its bytes can hold");
    return deliver(scan, data, size);
}

/* The type of a control batch's first record, read from its key; -1 where there is none. */
static int control_type(const struct scanned_batch *batch)
{
    const uint8_t *p = batch->records, *end = p + batch->records_size;
    int64_t timestamp;
    int32_t ignored, key_length;
    if (batch->count < 1 || (p = read_int(p, end, &ignored)) == NULL || p >= end)
        return -1;
    if ((p = read_zigzag64(p + 1, end, &timestamp)) == NULL || (p = read_int(p, end, &ignored)) == NULL)
        return -1;
    if (read_bytes(&p, end, &key_length) == NULL || key_length < 4)
        return -1;
    return load16(p + 2); /* behind a version */
}

static void start_aborting(struct scan *scan, int64_t last_offset)
{
    while (scan->aborted_next < scan->aborted_count
           && scan->aborted[scan->aborted_next].first_offset <= last_offset)
        scan->aborting[scan->aborting_count++] = scan->aborted[scan->aborted_next++].producer_id;
}

static int is_aborting(const struct scan *scan, int64_t producer_id)
{
    for (size_t i = 0; i < scan->aborting_count; i++)
        if (scan->aborting[i] == producer_id)
            return 1;
    return 0;
}

static void stop_aborting(struct scan *scan, int64_t producer_id)
{
    size_t kept = 0;
    for (size_t i = 0; i < scan->aborting_count; i++)
        if (scan->aborting[i] != producer_id)
            scan->aborting[kept++] = scan->aborting[i];
    scan->aborting_count = kept;
}

/* Whether the batch is for the consumer, by the rules of its isolation level (KIP-98). */
static int is_for_the_consumer(struct scan *scan)
{
    const struct scanned_batch *batch = &scan->batch;
    int control = (batch->attributes & ATTRIBUTE_CONTROL) != 0;
    if (scan->read_committed && batch->producer_id >= 0) {
        start_aborting(scan, batch->next_offset - 1);
        if (control && control_type(batch) == CONTROL_ABORT)
            stop_aborting(scan, batch->producer_id);
        else if ((batch->attributes & ATTRIBUTE_TRANSACTIONAL) && is_aborting(scan, batch->producer_id))
            return 0;
    }
    return (!control || scan->deliver_control) && batch->next_offset > scan->wanted_offset;
}

enum scan_status scan_batch(struct scan *scan)
{
    size_t left = scan->size - scan->position;
    const uint8_t *p = scan->data + scan->position;
    if (left < LOG_OVERHEAD)
        return SCAN_DONE;
    int32_t length = (int32_t)load32(p + BATCH_LENGTH);
    if (length < 14) /* the smallest message of magic 0 */
        return bad(scan, "a batch claims a length that no batch has");
    if (left > BATCH_MAGIC && p[BATCH_MAGIC] > 2)
        return bad(scan, "the batch has a magic that is not known");
    if ((size_t)length > left - LOG_OVERHEAD)
        return SCAN_DONE;
    scan->batch.size = LOG_OVERHEAD + (size_t)length;
    if (p[BATCH_MAGIC] < 2)
        return SCAN_OLD_MAGIC;
    if (length < BATCH_OVERHEAD - LOG_OVERHEAD)
        return bad(scan, "the batch is shorter than its header");

    struct scanned_batch *batch = &scan->batch;
    batch->base_offset = (int64_t)load64(p + BATCH_BASE_OFFSET);
    batch->leader_epoch = (int32_t)load32(p + BATCH_LEADER_EPOCH);
    batch->attributes = load16(p + BATCH_ATTRIBUTES);
    batch->base_timestamp = (int64_t)load64(p + BATCH_BASE_TIMESTAMP);
    batch->max_timestamp = (int64_t)load64(p + BATCH_MAX_TIMESTAMP);
    batch->producer_id = (int64_t)load64(p + BATCH_PRODUCER_ID);
    batch->count = (int32_t)load32(p + BATCH_COUNT);
    batch->records = p + BATCH_OVERHEAD;
    batch->records_size = batch->size - BATCH_OVERHEAD;
    if (scan->check_crc && load32(p + BATCH_CRC) != crc32c(0, p + BATCH_ATTRIBUTES, batch->size - BATCH_ATTRIBUTES))
        return bad(scan, "the checksum of the batch is wrong");
    int32_t last_delta = (int32_t)load32(p + BATCH_LAST_OFFSET_DELTA);
    if (batch->count < 0 || last_delta < 0 || batch->base_offset < 0 || batch->base_offset > LARGEST_OFFSET)
        return bad(scan, "the batch has a count or an offset that none has");
    batch->next_offset = batch->base_offset + last_delta + 1;
    /* A batch that compaction emptied may keep its codec and have nothing that could be decompressed. */
    if (!is_for_the_consumer(scan) || batch->count == 0)
        return leave(scan);
    if (batch->attributes & ATTRIBUTE_CODEC)
        return SCAN_COMPRESSED;
    if ((size_t)batch->count > batch->records_size / SMALLEST_RECORD)
        return bad(scan, "the batch claims more records than its bytes can hold");
    return deliver(scan, batch->records, batch->records_size);
}
