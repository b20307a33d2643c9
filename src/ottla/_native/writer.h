/* Writing records into a batch, and the header in front of them.
 *
 * A batch is open while records are appended behind the room kept for its header; sealing writes that header.
 * So the work per record (here, inline) is apart from the work per batch (writer.c): the sequence number is only
 * known when the batch is sent, and may change before it is sent again.
 *
 * Invariants: nothing is written beyond the size computed beforehand, and nothing is read beyond the end of a key
 * or value, since it may be the last one of a caller's buffer. */
#pragma once

#include "batch.h"

/* A key, a value or a header's value; null has the length -1, as on the wire. */
struct bytes {
    const uint8_t *data;
    int64_t length;
};

/* A batch that takes records: `end` bytes of `data` are used, the room for the header among them. */
struct open_batch {
    uint8_t *data;
    size_t end;
    size_t capacity;
    int64_t base_timestamp; /* of the first record, as in Java; what follows may be earlier */
    int64_t max_timestamp;
    int32_t count;
};

/* What a header says beyond what the records are. */
struct producer {
    int64_t id;
    int32_t base_sequence;
    int16_t epoch;
    int transactional;
};

/* Unsigned, so that timestamps at both ends of the range wrap around and come out right on the other side. */
static inline int64_t timestamp_delta(int64_t timestamp, int64_t base)
{
    return (int64_t)((uint64_t)timestamp - (uint64_t)base);
}

/* Nearly every number of a record takes one byte or two, and which of the two is often a coin toss to the processor:
 * the index alone changes from one to two in the middle of a batch. So these decide without a branch, and leave the
 * longer ones to the general case. */
static inline size_t number_size(int64_t value)
{
    uint64_t bits = zigzag(value);
    return __builtin_expect(bits < 0x4000, 1) ? 1 + (size_t)(bits > 0x7f) : zigzag_size(value);
}

/* Always touches two bytes. That is within the record wherever something follows the number, and the number of
 * headers always does. */
static inline uint8_t *write_number(uint8_t *p, int64_t value)
{
    uint64_t bits = zigzag(value);
    if (__builtin_expect(bits >= 0x4000, 0))
        return write_zigzag(p, value);
    uint64_t longer = bits > 0x7f;
    p[0] = (uint8_t)(bits & 0x7f) | (uint8_t)(longer << 7);
    p[1] = (uint8_t)(bits >> 7);
    return p + 1 + longer;
}

/* memcpy, inline for what is short: two chunks that overlap instead of many small ones. */
static inline uint8_t *copy_bytes(uint8_t *to, const uint8_t *from, size_t length)
{
    if (length > 32) {
        memcpy(to, from, length);
    } else if (length >= 16) {
        memcpy(to, from, 16);
        memcpy(to + length - 16, from + length - 16, 16);
    } else if (length >= 8) {
        memcpy(to, from, 8);
        memcpy(to + length - 8, from + length - 8, 8);
    } else if (length >= 4) {
        memcpy(to, from, 4);
        memcpy(to + length - 4, from + length - 4, 4);
    } else {
        for (size_t i = 0; i < length; i++)
            to[i] = from[i];
    }
    return to + length;
}

static inline size_t bytes_size(int64_t length)
{
    return number_size(length) + (length > 0 ? (size_t)length : 0);
}

static inline uint8_t *write_bytes(uint8_t *p, struct bytes bytes)
{
    p = write_number(p, bytes.length);
    return bytes.length > 0 ? copy_bytes(p, bytes.data, (size_t)bytes.length) : p;
}

/* As write_bytes, where nothing may follow: touches no byte more than it writes. */
static inline uint8_t *write_last_bytes(uint8_t *p, struct bytes bytes)
{
    p = write_zigzag(p, bytes.length);
    return bytes.length > 0 ? copy_bytes(p, bytes.data, (size_t)bytes.length) : p;
}

/* The bytes of a record behind its length; `headers` is the size of their number and of them all. */
static inline size_t record_body_size(int64_t delta, int32_t index, int64_t key, int64_t value, size_t headers)
{
    return 1 + number_size(delta) + number_size(index) + bytes_size(key) + bytes_size(value) + headers;
}

/* Everything of a record but its headers, which the caller writes next. */
static inline uint8_t *write_record_front(uint8_t *p, size_t body, int64_t delta, int32_t index, struct bytes key,
                                          struct bytes value)
{
    p = write_number(p, (int64_t)body);
    *p++ = 0; /* attributes: none is defined */
    p = write_number(p, delta);
    p = write_number(p, index);
    p = write_bytes(p, key);
    return write_bytes(p, value);
}

/* An open batch starts anew at its first record, so that the block it has can be exchanged while it is empty. */
static inline void open_batch_init(struct open_batch *batch, uint8_t *data, size_t capacity)
{
    batch->data = data;
    batch->capacity = capacity;
    batch->end = BATCH_OVERHEAD;
    batch->base_timestamp = batch->max_timestamp = -1;
    batch->count = 0;
}

static inline size_t open_batch_body_size(const struct open_batch *batch, int64_t timestamp, int64_t key,
                                          int64_t value, size_t headers)
{
    int64_t base = batch->count > 0 ? batch->base_timestamp : timestamp;
    return record_body_size(timestamp_delta(timestamp, base), batch->count, key, value, headers);
}

/* Appends a record for which there is room; `headers` are encoded already, their number included. */
static inline void open_batch_append(struct open_batch *batch, size_t body, int64_t timestamp, struct bytes key,
                                     struct bytes value, struct bytes headers)
{
    if (batch->count == 0)
        batch->base_timestamp = batch->max_timestamp = timestamp;
    else if (timestamp > batch->max_timestamp)
        batch->max_timestamp = timestamp;
    uint8_t *p = write_record_front(batch->data + batch->end, body,
                                    timestamp_delta(timestamp, batch->base_timestamp), batch->count, key, value);
    p = copy_bytes(p, headers.data, (size_t)headers.length);
    batch->end = (size_t)(p - batch->data);
    batch->count++;
}

/* Must return before the two below are called; the extension module calls it once while it is imported. */
void writer_setup(void);

/* The checksum of the records of a batch, compressed or not. */
uint32_t records_crc(const uint8_t *records, size_t size);

/* Writes BATCH_OVERHEAD bytes: the header of a batch whose records take `size` bytes and have checksum `crc`.
 * Takes the same time whatever the size, since the checksums of header and records are joined. */
void write_header(uint8_t *header, size_t size, uint32_t crc, int codec, const struct producer *producer,
                  int32_t count, int64_t base_timestamp, int64_t max_timestamp);

/* The timestamp of record `index` of a batch that this core has written. */
int64_t record_timestamp(const uint8_t *data, size_t end, int64_t base_timestamp, int32_t index);

/* The two parts of a batch that is split. Each is called twice: with data NULL it finds the part's size, count and
 * timestamps, and then it writes. The front ends with the record that reaches half of the bytes; no part is empty. */
void split_front(const struct open_batch *batch, struct open_batch *front);
void split_back(const struct open_batch *batch, const struct open_batch *front, struct open_batch *back);
