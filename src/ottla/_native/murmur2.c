/* murmur2 (Austin Appleby's MurmurHash2, 32 bits, public domain) with the seed that Kafka chose. */
#include "murmur2.h"

#define SEED 0x9747b28cu
#define MULTIPLIER 0x5bd1e995u
#define SHIFT 24

/* By bytes, which is little-endian everywhere; compilers make one load of it where the processor is too. */
static uint32_t load_little_endian(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

int32_t murmur2(const void *data, size_t length)
{
    const uint8_t *next = data;
    uint32_t hash = SEED ^ (uint32_t)length;

    for (; length >= 4; next += 4, length -= 4) {
        uint32_t word = load_little_endian(next) * MULTIPLIER;
        word = (word ^ (word >> SHIFT)) * MULTIPLIER;
        hash = (hash * MULTIPLIER) ^ word;
    }

    uint32_t rest = 0;
    switch (length) {
    case 3:
        rest |= (uint32_t)next[2] << 16;
        /* fall through */
    case 2:
        rest |= (uint32_t)next[1] << 8;
        /* fall through */
    case 1:
        rest |= next[0];
        hash = (hash ^ rest) * MULTIPLIER;
    }

    hash = (hash ^ (hash >> 13)) * MULTIPLIER;
    return (int32_t)(hash ^ (hash >> 15));
}
