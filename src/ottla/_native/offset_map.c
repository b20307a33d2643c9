#include "offset_map.h"

#include <stdlib.h>
#include <string.h>

static inline uint64_t rotated(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static inline uint64_t little64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[0] = rotated(v[0], 32);
    v[2] += v[3];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[2] = rotated(v[2], 32);
}

static inline uint64_t finished(uint64_t v[4])
{
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void siphash128(const uint64_t secret[2], const uint8_t *data, size_t size, uint64_t hash[2])
{
    uint64_t v[4] = {
        secret[0] ^ 0x736f6d6570736575ULL,
        secret[1] ^ 0x646f72616e646f6dULL ^ 0xee,
        secret[0] ^ 0x6c7967656e657261ULL,
        secret[1] ^ 0x7465646279746573ULL,
    };
    const uint8_t *whole = data + (size & ~(size_t)7);
    for (; data != whole; data += 8) {
        uint64_t word = little64(data);
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)size << 56;
    for (size_t i = 0; i < (size & 7); i++)
        last |= (uint64_t)data[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xee;
    hash[0] = finished(v);
    v[1] ^= 0xdd;
    hash[1] = finished(v);
}

void offset_map_start(struct offset_map *map, uint64_t first_secret, uint64_t second_secret)
{
    *map = (struct offset_map){.secret = {first_secret, second_secret}};
}

void offset_map_end(struct offset_map *map)
{
    free(map->slots);
    free(map->old);
    offset_map_start(map, 0, 0);
}

static inline int is_free(const struct offset_slot *slot)
{
    return slot->next <= 0;
}

/* The slot of a hash, or the free one where it would be. */
static inline struct offset_slot *find(struct offset_slot *slots, size_t capacity, const uint64_t hash[2])
{
    /* The upper half of a product spreads a hash over any number of slots, not only over a power of two. */
    size_t at = (size_t)(((unsigned __int128)hash[0] * capacity) >> 64);
    for (;;) {
        struct offset_slot *slot = &slots[at];
        if (is_free(slot) || (slot->hash[0] == hash[0] && slot->hash[1] == hash[1]))
            return slot;
        if (++at == capacity)
            at = 0;
    }
}

void offset_map_move(struct offset_map *map, size_t count)
{
    size_t left = map->old_capacity - map->moved;
    size_t end = map->moved + (count < left ? count : left);
    for (; map->moved < end; map->moved++) {
        const struct offset_slot *old = &map->old[map->moved];
        if (is_free(old))
            continue;
        struct offset_slot *slot = find(map->slots, map->capacity, old->hash);
        if (is_free(slot))
            *slot = *old;
    }
    if (map->old != NULL && map->moved == map->old_capacity) {
        free(map->old);
        map->old = NULL;
        map->old_capacity = map->moved = 0;
    }
}

int offset_map_resize(struct offset_map *map, size_t capacity)
{
    struct offset_slot *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return -1;
    offset_map_move(map, SIZE_MAX);
    map->old = map->slots;
    map->old_capacity = map->capacity;
    map->slots = slots;
    map->capacity = capacity;
    return 0;
}

void offset_map_put(struct offset_map *map, const uint8_t *key, size_t size, int64_t offset)
{
    uint64_t hash[2];
    siphash128(map->secret, key, size, hash);
    struct offset_slot *slot = find(map->slots, map->capacity, hash);
    if (is_free(slot)) {
        slot->hash[0] = hash[0];
        slot->hash[1] = hash[1];
        if (map->old == NULL || is_free(find(map->old, map->old_capacity, hash)))
            map->used++;
    }
    slot->next = (int64_t)((uint64_t)offset + 1);
}

int64_t offset_map_get(const struct offset_map *map, const uint8_t *key, size_t size)
{
    uint64_t hash[2];
    if (map->used == 0)
        return -1;
    siphash128(map->secret, key, size, hash);
    const struct offset_slot *slot = find(map->slots, map->capacity, hash);
    if (is_free(slot) && map->old != NULL)
        slot = find(map->old, map->old_capacity, hash);
    return is_free(slot) ? -1 : slot->next - 1;
}
