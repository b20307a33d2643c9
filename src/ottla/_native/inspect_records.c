#include "inspect_records.h"

#include "batch.h"

void inspect_start(struct inspection *inspection, const uint8_t *data, size_t size)
{
    inspection->position = data;
    inspection->end = data + size;
    inspection->next = 0;
    inspection->offsets_are_dense = 1;
    inspection->max_timestamp = -1; /* Kafka's NO_TIMESTAMP: no batch has less */
    inspection->problem = NULL;
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

/* Behind a length and that many bytes; NULL where they are not there. A negative length is null, as in Kafka. */
static inline const uint8_t *skip_bytes(const uint8_t *p, const uint8_t *end, int32_t *length)
{
    p = read_int(p, end, length);
    if (p == NULL || *length > end - p)
        return NULL;
    return *length < 0 ? p : p + *length;
}

static const uint8_t *skip_headers(const uint8_t *p, const uint8_t *end, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t key_length, value_length;
        p = skip_bytes(p, end, &key_length);
        if (p == NULL || key_length < 0 || (p = skip_bytes(p, end, &value_length)) == NULL)
            return NULL;
    }
    return p;
}

/* Reads the record at `position` and moves behind it; the reason where it is none. */
static inline const char *read_record(struct inspection *inspection, int32_t *delta)
{
    int32_t length, key_length, value_length, headers;
    int64_t timestamp_delta;
    const uint8_t *p = read_int(inspection->position, inspection->end, &length);
    if (p == NULL || length < 1 || length > inspection->end - p)
        return "a record claims more bytes than there are";
    const uint8_t *stop = p + length;
    /* The first byte are attributes, of which Kafka uses none. */
    p = read_zigzag64(p + 1, stop, &timestamp_delta);
    if (p == NULL || (p = read_int(p, stop, delta)) == NULL)
        return "a record's timestamp or offset is damaged";
    if ((p = skip_bytes(p, stop, &key_length)) == NULL)
        return "a record's key is longer than the record";
    if ((p = skip_bytes(p, stop, &value_length)) == NULL)
        return "a record's value is longer than the record";
    p = read_int(p, stop, &headers);
    if (p == NULL || headers < 0 || headers > stop - p)
        return "a record has more headers than bytes";
    if (headers > 0 && (p = skip_headers(p, stop, headers)) == NULL)
        return "a record's headers are damaged";
    if (p != stop)
        return "a record has bytes behind its headers";
    inspection->timestamp = (int64_t)((uint64_t)inspection->base_timestamp + (uint64_t)timestamp_delta);
    inspection->has_key = key_length >= 0;
    inspection->position = p;
    return NULL;
}

static inline int is_faulty(const struct inspection *inspection)
{
    int64_t timestamp = inspection->timestamp;
    if (inspection->keys_required && !inspection->has_key)
        return 1;
    return (timestamp < inspection->earliest || timestamp > inspection->latest) && timestamp != -1;
}

enum inspect_status inspect_go_on(struct inspection *inspection)
{
    while (inspection->next < inspection->count) {
        int32_t delta;
        inspection->problem = read_record(inspection, &delta);
        if (inspection->problem != NULL)
            return INSPECT_BAD;
        if (delta != inspection->next)
            inspection->offsets_are_dense = 0;
        if (inspection->timestamp > inspection->max_timestamp)
            inspection->max_timestamp = inspection->timestamp;
        inspection->next++;
        if (__builtin_expect(is_faulty(inspection), 0))
            return INSPECT_FAULT;
    }
    if (inspection->position != inspection->end) {
        inspection->problem = "the batch has bytes behind its last record";
        return INSPECT_BAD;
    }
    return INSPECT_DONE;
}
