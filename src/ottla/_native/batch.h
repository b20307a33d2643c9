/* The record batch of magic 2: where its fields are, and how its numbers are written and read.
 *
 * Shared by the side that writes batches and the side that reads them, so that the layout stands in one place. The
 * mirror in Python is wire/batch_header.py; inspect.pyx exports this one, and a test compares them.
 * Everything is inline: these run several times per record. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    BATCH_BASE_OFFSET = 0,
    BATCH_LENGTH = 8, /* of what follows this field */
    BATCH_LEADER_EPOCH = 12,
    BATCH_MAGIC = 16,
    BATCH_CRC = 17, /* CRC32C of everything from the attributes on */
    BATCH_ATTRIBUTES = 21,
    BATCH_LAST_OFFSET_DELTA = 23,
    BATCH_BASE_TIMESTAMP = 27,
    BATCH_MAX_TIMESTAMP = 35,
    BATCH_PRODUCER_ID = 43,
    BATCH_PRODUCER_EPOCH = 51,
    BATCH_BASE_SEQUENCE = 53,
    BATCH_COUNT = 57,
    BATCH_OVERHEAD = 61, /* the records begin here */
    LOG_OVERHEAD = 12,   /* base offset and length: what precedes a batch or message of any magic */
};

/* A message of magic 0 or 1: its magic is at the same byte, its CRC32 that of everything from there on. */
enum {
    MESSAGE_CRC = 12,
    MESSAGE_ATTRIBUTES = 17,
    MESSAGE_TIMESTAMP = 18, /* since magic 1; in magic 0 the key begins here */
    SMALLEST_MESSAGE = 26,  /* of magic 0, with the lengths of key and value */
};

enum {
    ATTRIBUTE_CODEC = 0x07,
    ATTRIBUTE_LOG_APPEND_TIME = 0x08,
    ATTRIBUTE_TRANSACTIONAL = 0x10,
    ATTRIBUTE_CONTROL = 0x20,
    ATTRIBUTE_DELETE_HORIZON = 0x40,
};

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t value;
    memcpy(&value, p, sizeof value);
    return __builtin_bswap16(value);
}

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t value;
    memcpy(&value, p, sizeof value);
    return __builtin_bswap32(value);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
    return __builtin_bswap64(value);
}

static inline void store16(uint8_t *p, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(p, &value, sizeof value);
}

static inline void store32(uint8_t *p, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(p, &value, sizeof value);
}

static inline void store64(uint8_t *p, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(p, &value, sizeof value);
}

/* Varints are zigzag: small numbers of either sign are short. At most 5 bytes for 32 bits, 10 for 64. (Not named
 * after varints, as some headers of CPython have functions of those names.) */

static inline uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline size_t zigzag_size(int64_t value)
{
    uint64_t bits = zigzag(value) | 1;
    return (size_t)(70 - __builtin_clzll(bits)) / 7;
}

static inline uint8_t *write_zigzag(uint8_t *p, int64_t value)
{
    uint64_t bits = zigzag(value);
    while (bits > 0x7f) {
        *p++ = (uint8_t)(bits | 0x80);
        bits >>= 7;
    }
    *p++ = (uint8_t)bits;
    return p;
}

/* Both readers give NULL when the number runs on for too long, or past `end`. As in Kafka, bits beyond the width of
 * the number are dropped, and it may be longer than it had to be. */

static inline const uint8_t *read_zigzag64(const uint8_t *p, const uint8_t *end, int64_t *value)
{
    uint64_t bits = 0;
    for (int shift = 0; shift < 70 && p < end; shift += 7) {
        uint8_t byte = *p++;
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return p;
        }
    }
    return NULL;
}

static inline const uint8_t *read_zigzag32(const uint8_t *p, const uint8_t *end, int32_t *value)
{
    uint32_t bits = 0;
    for (int shift = 0; shift < 35 && p < end; shift += 7) {
        uint8_t byte = *p++;
        bits |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (int32_t)(bits >> 1) ^ -(int32_t)(bits & 1);
            return p;
        }
    }
    return NULL;
}
