/* The work per batch: the header, and a checksum that need not be computed anew when only the header changes. */
#include "writer.h"

#include "crc32c.h"

/* The Castagnoli polynomial without x^32, reversed: bit 31 is x^0. */
#define CASTAGNOLI 0x82f63b78u

/* Lengths are taken in digits of four bits: fewer multiplications than one for every bit. */
enum { DIGIT_BITS = 4, DIGITS = 32 / DIGIT_BITS };

/* shifts[k][d] = x^(8 * d * 16^k): what appending d * 16^k bytes multiplies a checksum by. */
static uint32_t shifts[DIGITS][1 << DIGIT_BITS];

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        product ^= b & -(a >> 31);
        b = (b >> 1) ^ (CASTAGNOLI & -(b & 1));
    }
    return product;
}

void writer_setup(void)
{
    crc32c_setup();
    uint32_t unit = 1u << (31 - 8); /* x^8 */
    for (int k = 0; k < DIGITS; k++) {
        shifts[k][0] = 1u << 31; /* x^0 */
        for (int digit = 1; digit < 1 << DIGIT_BITS; digit++)
            shifts[k][digit] = multiply(shifts[k][digit - 1], unit);
        unit = multiply(shifts[k][(1 << DIGIT_BITS) - 1], unit);
    }
}

/* The checksum of two parts from those of each: crc(a b) = crc(a) * x^(8 * length of b) + crc(b). */
static uint32_t joined(uint32_t front, uint32_t back, size_t back_length)
{
    for (int k = 0; back_length != 0; k++, back_length >>= DIGIT_BITS)
        front = multiply(shifts[k][back_length & ((1 << DIGIT_BITS) - 1)], front);
    return front ^ back;
}

uint32_t records_crc(const uint8_t *records, size_t size)
{
    return crc32c(0, records, size);
}

void write_header(uint8_t *header, size_t size, uint32_t crc, int codec, const struct producer *producer,
                  int32_t count, int64_t base_timestamp, int64_t max_timestamp)
{
    store64(header + BATCH_BASE_OFFSET, 0);
    store32(header + BATCH_LENGTH, (uint32_t)(BATCH_OVERHEAD - LOG_OVERHEAD + size));
    store32(header + BATCH_LEADER_EPOCH, (uint32_t)-1);
    header[BATCH_MAGIC] = 2;
    store16(header + BATCH_ATTRIBUTES,
            (uint16_t)(codec | (producer->transactional ? ATTRIBUTE_TRANSACTIONAL : 0)));
    store32(header + BATCH_LAST_OFFSET_DELTA, (uint32_t)(count - 1));
    store64(header + BATCH_BASE_TIMESTAMP, (uint64_t)base_timestamp);
    store64(header + BATCH_MAX_TIMESTAMP, (uint64_t)max_timestamp);
    store64(header + BATCH_PRODUCER_ID, (uint64_t)producer->id);
    store16(header + BATCH_PRODUCER_EPOCH, (uint16_t)producer->epoch);
    store32(header + BATCH_BASE_SEQUENCE, (uint32_t)producer->base_sequence);
    store32(header + BATCH_COUNT, (uint32_t)count);
    uint32_t front = crc32c(0, header + BATCH_ATTRIBUTES, BATCH_OVERHEAD - BATCH_ATTRIBUTES);
    store32(header + BATCH_CRC, joined(front, crc, size));
}

int64_t record_timestamp(const uint8_t *data, size_t end, int64_t base_timestamp, int32_t index)
{
    const uint8_t *p = data + BATCH_OVERHEAD, *stop = data + end;
    int32_t length = 0;
    int64_t delta = 0;
    for (; index > 0; index--) {
        p = read_zigzag32(p, stop, &length);
        p += length;
    }
    p = read_zigzag32(p, stop, &length);
    read_zigzag64(p + 1, stop, &delta);
    return (int64_t)((uint64_t)base_timestamp + (uint64_t)delta);
}

/* One record, as it is read back: its timestamp, and all that follows the numbers which depend on its batch. */
static const uint8_t *read_record(const struct open_batch *batch, const uint8_t *p, int64_t *timestamp,
                                  struct bytes *rest)
{
    const uint8_t *stop = batch->data + batch->end;
    int32_t length = 0, index = 0;
    int64_t delta = 0;
    p = read_zigzag32(p, stop, &length);
    const uint8_t *next = p + length;
    p = read_zigzag64(p + 1, stop, &delta);
    rest->data = read_zigzag32(p, stop, &index);
    rest->length = next - rest->data;
    *timestamp = (int64_t)((uint64_t)batch->base_timestamp + (uint64_t)delta);
    return next;
}

static void append_again(struct open_batch *batch, int64_t timestamp, struct bytes rest)
{
    if (batch->count == 0)
        batch->base_timestamp = batch->max_timestamp = timestamp;
    else if (timestamp > batch->max_timestamp)
        batch->max_timestamp = timestamp;
    int64_t delta = timestamp_delta(timestamp, batch->base_timestamp);
    size_t body = 1 + number_size(delta) + number_size(batch->count) + (size_t)rest.length;
    if (batch->data != NULL) {
        uint8_t *p = write_number(batch->data + batch->end, (int64_t)body);
        *p++ = 0;
        p = write_number(write_number(p, delta), batch->count);
        memcpy(p, rest.data, (size_t)rest.length);
    }
    batch->end += number_size((int64_t)body) + body;
    batch->count++;
}

void split_front(const struct open_batch *batch, struct open_batch *front)
{
    const uint8_t *p = batch->data + BATCH_OVERHEAD;
    size_t half = BATCH_OVERHEAD + (batch->end - BATCH_OVERHEAD) / 2;
    int64_t timestamp;
    struct bytes rest;
    open_batch_init(front, front->data, 0);
    do {
        p = read_record(batch, p, &timestamp, &rest);
        append_again(front, timestamp, rest);
    } while (front->end < half && front->count < batch->count - 1);
}

void split_back(const struct open_batch *batch, const struct open_batch *front, struct open_batch *back)
{
    /* The front has the bytes of its records as they were: the same base, the same indices. */
    const uint8_t *p = batch->data + front->end;
    int64_t timestamp;
    struct bytes rest;
    open_batch_init(back, back->data, 0);
    while (back->count < batch->count - front->count) {
        p = read_record(batch, p, &timestamp, &rest);
        append_again(back, timestamp, rest);
    }
}
