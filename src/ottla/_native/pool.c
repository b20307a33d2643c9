#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer, the rest of a block behind the requested size, and all of a block that waits, may not be
 * touched: blocks are larger than wanted and live on, and would hide a wrong access otherwise. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define FORBID(memory, size) ASAN_POISON_MEMORY_REGION(memory, size)
#define ALLOW(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
#define FORBID(memory, size) ((void)0)
#define ALLOW(memory, size) ((void)0)
#endif

enum { SMALLEST_SHIFT = 12, CLASSES = 24, ALIGNMENT = 4096, POISON = 0xdb };

/* A block that waits holds the link to the next one in its own first bytes. */
struct waiting {
    struct waiting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *classes[CLASSES];
/* When a class was last used, by a count of all uses: what has to go goes from the class that rested longest. */
static uint64_t used_at[CLASSES];
static uint64_t uses;
static size_t most_kept = (size_t)256 << 20;
static int poisoned;
static struct pool_statistics statistics;

static int class_of(size_t size)
{
    if (size <= ((size_t)1 << SMALLEST_SHIFT))
        return 0;
    return 64 - __builtin_clzll((unsigned long long)(size - 1)) - SMALLEST_SHIFT;
}

static size_t size_of(int class)
{
    return (size_t)1 << (class + SMALLEST_SHIFT);
}

void *pool_take(size_t size, size_t *capacity)
{
    int class = class_of(size);
    if (class >= CLASSES)
        return NULL;
    size_t bytes = size_of(class);
    pthread_mutex_lock(&lock);
    used_at[class] = ++uses;
    struct waiting *block = classes[class];
    if (block != NULL) {
        classes[class] = block->next;
        statistics.kept -= bytes;
        statistics.reused++;
    }
    statistics.taken++;
    statistics.in_use += bytes;
    pthread_mutex_unlock(&lock);
    void *memory = block;
    if (memory == NULL && posix_memalign(&memory, ALIGNMENT, bytes) != 0) {
        pthread_mutex_lock(&lock);
        statistics.taken--;
        statistics.in_use -= bytes;
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    ALLOW(memory, bytes);
    FORBID((char *)memory + size, bytes - size);
    *capacity = bytes;
    return memory;
}

/* Takes waiting blocks out until no more than `most_kept` bytes wait. Called with the lock held. */
static struct waiting *take_out(void)
{
    struct waiting *out = NULL;
    while (statistics.kept > most_kept) {
        int oldest = -1;
        for (int class = 0; class < CLASSES; class++)
            if (classes[class] != NULL && (oldest < 0 || used_at[class] < used_at[oldest]))
                oldest = class;
        while (classes[oldest] != NULL && statistics.kept > most_kept) {
            struct waiting *block = classes[oldest];
            classes[oldest] = block->next;
            statistics.kept -= size_of(oldest);
            block->next = out;
            out = block;
        }
    }
    return out;
}

static void release(struct waiting *out)
{
    while (out != NULL) {
        struct waiting *next = out->next;
        free(out);
        out = next;
    }
}

void pool_give(void *block, size_t capacity)
{
    int class = class_of(capacity);
    struct waiting *waiting = block;
    ALLOW(block, capacity);
    if (poisoned)
        memset(block, POISON, capacity);
    pthread_mutex_lock(&lock);
    used_at[class] = ++uses;
    statistics.in_use -= capacity;
    statistics.kept += capacity;
    waiting->next = classes[class];
    classes[class] = waiting;
    FORBID(waiting + 1, capacity - sizeof *waiting);
    struct waiting *out = take_out();
    pthread_mutex_unlock(&lock);
    release(out);
}

void pool_keep_at_most(size_t bytes)
{
    pthread_mutex_lock(&lock);
    most_kept = bytes;
    struct waiting *out = take_out();
    pthread_mutex_unlock(&lock);
    release(out);
}

void pool_poison(int on)
{
    pthread_mutex_lock(&lock);
    poisoned = on;
    pthread_mutex_unlock(&lock);
}

void pool_statistics(struct pool_statistics *out)
{
    pthread_mutex_lock(&lock);
    *out = statistics;
    pthread_mutex_unlock(&lock);
}
