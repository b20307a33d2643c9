/* The last offset of each key in the part of a log that is compacted: a hash table without the keys.
 *
 * A slot has 128 bits of hash and an offset. Keys are not compared, so two keys with the same hash would be one key, and
 * compaction would silently drop a record. The hash is SipHash-2-4 with 128 bits under a secret that is drawn anew for
 * each pass: to whoever writes keys without knowing it, any two of them collide with a chance of 2^-128. Among the five
 * million keys of a full map of 128 MB that is less than 2^-83 in all, far below the chance that memory itself errs.
 *
 * The table grows without a pause: its slots are moved to a larger one bit by bit (offset_map_move), and as long as that
 * lasts a key may be in either. What the larger one says of it is newer. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct offset_slot {
    uint64_t hash[2];
    int64_t next; /* the offset behind that of the key; 0 or less: the slot is free, as it is in memory from calloc */
};

struct offset_map {
    struct offset_slot *slots;
    size_t capacity;
    size_t used;
    uint64_t secret[2];
    /* what is being moved: the slots before `moved` are in the table as well */
    struct offset_slot *old;
    size_t old_capacity;
    size_t moved;
};

/* 128 bits, which tests compare with the known answers of its authors. */
void siphash128(const uint64_t secret[2], const uint8_t *data, size_t size, uint64_t hash[2]);

void offset_map_start(struct offset_map *map, uint64_t first_secret, uint64_t second_secret);

void offset_map_end(struct offset_map *map);

/* Makes room for that many slots, not fewer than are in use; -1 where there is no memory, and nothing has changed. What
 * is in the map has still to be moved. */
int offset_map_resize(struct offset_map *map, size_t capacity);

/* Moves so many slots, or all that are left. */
void offset_map_move(struct offset_map *map, size_t count);

/* There has to be a free slot. */
void offset_map_put(struct offset_map *map, const uint8_t *key, size_t size, int64_t offset);

/* -1 for a key that is not there. */
int64_t offset_map_get(const struct offset_map *map, const uint8_t *key, size_t size);
