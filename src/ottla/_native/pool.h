/* A pool of memory blocks: large buffers are used again instead of being returned to the system.
 *
 * The first touch of a fresh page costs more than ten times what copying into it does. Blocks come in sizes of
 * powers of two; what is kept is bounded, and beyond that freed. Thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pool_statistics {
    uint64_t taken;   /* blocks handed out, ever */
    uint64_t reused;  /* of those, from the pool */
    size_t in_use;    /* bytes handed out and not yet given back */
    size_t kept;      /* bytes waiting to be used again */
};

/* A block of at least `size` bytes, aligned to a page; NULL when there is no memory. */
void *pool_take(size_t size, size_t *capacity);

void pool_give(void *block, size_t capacity);

/* How many bytes may wait to be used again; what is beyond is freed at once. */
void pool_keep_at_most(size_t bytes);

/* For tests: blocks that come back are overwritten, so that code that still reads them notices. */
void pool_poison(int on);

void pool_statistics(struct pool_statistics *out);
