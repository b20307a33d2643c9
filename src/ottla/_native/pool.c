#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST_SHIFT = 12, CLASSES = 24, ALIGNMENT = 4096, POISON = 0xdb };

/* A block that waits holds the link to the next one in its own first bytes. */
struct waiting {
    struct waiting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct waiting *classes[CLASSES];
static size_t most_kept = (size_t)256 << 20;
static int poisoned;
static struct pool_statistics statistics;

static int class_of(size_t size)
{
    if (size <= ((size_t)1 << SMALLEST_SHIFT))
        return 0;
    return 64 - __builtin_clzll((unsigned long long)(size - 1)) - SMALLEST_SHIFT;
}

void *pool_take(size_t size, size_t *capacity)
{
    int class = class_of(size);
    if (class >= CLASSES)
        return NULL;
    size_t bytes = (size_t)1 << (class + SMALLEST_SHIFT);
    pthread_mutex_lock(&lock);
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
    *capacity = bytes;
    return memory;
}

void pool_give(void *block, size_t capacity)
{
    int class = class_of(capacity);
    struct waiting *waiting = block;
    if (poisoned)
        memset(block, POISON, capacity);
    pthread_mutex_lock(&lock);
    statistics.in_use -= capacity;
    int keep = statistics.kept + capacity <= most_kept;
    if (keep) {
        waiting->next = classes[class];
        classes[class] = waiting;
        statistics.kept += capacity;
    }
    pthread_mutex_unlock(&lock);
    if (!keep)
        free(block);
}

/* Takes waiting blocks out, largest first, until no more than `bytes` wait. Called with the lock held. */
static struct waiting *take_out(size_t bytes)
{
    struct waiting *out = NULL;
    for (int class = CLASSES - 1; class >= 0; class--) {
        while (classes[class] != NULL && statistics.kept > bytes) {
            struct waiting *block = classes[class];
            classes[class] = block->next;
            statistics.kept -= (size_t)1 << (class + SMALLEST_SHIFT);
            block->next = out;
            out = block;
        }
    }
    return out;
}

void pool_keep_at_most(size_t bytes)
{
    pthread_mutex_lock(&lock);
    most_kept = bytes;
    struct waiting *out = take_out(bytes);
    pthread_mutex_unlock(&lock);
    while (out != NULL) {
        struct waiting *next = out->next;
        free(out);
        out = next;
    }
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
