/* Where a reader of one value stands, and the numbers of Avro: no byte is read that is not there. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "avro_plan.h"

struct avro_cursor {
    const uint8_t *p, *end, *start;
    /* Items without bytes that the value may still have: what they cost is not in the bytes. */
    int64_t free_items;
    const char *problem;
    const uint8_t *problem_at;
    const struct avro_node *node; /* whose value it is */
    int no_memory;
};

/* These note what is wrong, and are -1. */
int avro_wrong(struct avro_cursor *r, const struct avro_node *node, const char *problem);
int avro_ends(struct avro_cursor *r, const struct avro_node *node);
int avro_no_memory(struct avro_cursor *r);
int avro_long_number(struct avro_cursor *r, const struct avro_node *node, int most, uint64_t *value);

static inline ptrdiff_t avro_left(const struct avro_cursor *r)
{
    return r->end - r->p;
}

static inline int64_t avro_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static inline int avro_take_long(struct avro_cursor *r, const struct avro_node *node, int64_t *value)
{
    uint64_t raw;
    if (__builtin_expect(r->p < r->end && *r->p < 0x80, 1)) {
        raw = *r->p++;
    } else if (avro_left(r) >= 2 && r->p[1] < 0x80) {
        raw = (uint64_t)(r->p[0] & 0x7f) | (uint64_t)r->p[1] << 7;
        r->p += 2;
    } else if (avro_long_number(r, node, 10, &raw) < 0) {
        return -1;
    }
    *value = avro_unzigzag(raw);
    return 0;
}

static inline int avro_take_int(struct avro_cursor *r, const struct avro_node *node, int32_t *value)
{
    uint64_t raw;
    if (__builtin_expect(r->p < r->end && *r->p < 0x80, 1))
        raw = *r->p++;
    else if (avro_long_number(r, node, 5, &raw) < 0)
        return -1;
    *value = (int32_t)avro_unzigzag(raw);
    return 0;
}

/* The branch of a union: which of `count`, or -1. */
static inline int32_t avro_take_branch(struct avro_cursor *r, const struct avro_node *node, int32_t count)
{
    int64_t branch;
    const uint8_t *from = r->p;
    if (avro_take_long(r, node, &branch) < 0)
        return -1;
    if (__builtin_expect(branch < 0 || branch >= count, 0)) {
        r->p = from;
        return avro_wrong(r, node, "the branch is none of the union");
    }
    return (int32_t)branch;
}

/* The length of bytes or of a string, of which all are there. */
static inline int avro_take_length(struct avro_cursor *r, const struct avro_node *node, size_t *length)
{
    int64_t found;
    const uint8_t *from = r->p;
    if (avro_take_long(r, node, &found) < 0)
        return -1;
    if (__builtin_expect((uint64_t)found > (uint64_t)avro_left(r), 0)) {
        r->p = from;
        return found < 0 ? avro_wrong(r, node, "a negative length stands in the value")
                         : avro_ends(r, node);
    }
    *length = (size_t)found;
    return 0;
}

/* The head of a block of items: how many, 0 at the end. `block_end` is NULL where the size is not said. */
int avro_take_block(struct avro_cursor *r, const struct avro_node *node, int64_t least, int64_t *count,
                    const uint8_t **block_end);

/* Goes over a value without a look into it: only what has to be known to find its end is checked. */
int avro_skip(struct avro_cursor *r, const struct avro_node *node);
