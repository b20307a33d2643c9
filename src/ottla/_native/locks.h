/* What keeps threads apart that append, drain and complete: a lock for a few steps, and a counter with a bound.
 *
 * Where there is a GIL, it does that already: no thread gets it from another between two steps that run no Python
 * code, and only such steps are taken under a lock. Mutex and atomic operations beside it would be a tenth of an
 * append. Without a GIL they are what these are.
 *
 * Needs Python.h before it, which says whether there is a GIL. */
#pragma once

#include <stdint.h>

#ifdef Py_GIL_DISABLED

#include <pthread.h>

typedef pthread_mutex_t brief_lock;

static inline void brief_lock_init(brief_lock *lock)
{
    pthread_mutex_init(lock, NULL);
}

static inline void brief_lock_end(brief_lock *lock)
{
    pthread_mutex_destroy(lock);
}

static inline void brief_lock_take(brief_lock *lock)
{
    pthread_mutex_lock(lock);
}

static inline void brief_lock_give(brief_lock *lock)
{
    pthread_mutex_unlock(lock);
}

static inline void add_to(int64_t *number, int64_t what)
{
    __atomic_add_fetch(number, what, __ATOMIC_RELAXED);
}

static inline int add_within(int64_t *number, int64_t what, int64_t most)
{
    int64_t now = __atomic_load_n(number, __ATOMIC_RELAXED);
    do {
        if (now + what > most)
            return 0;
    } while (!__atomic_compare_exchange_n(number, &now, now + what, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 1;
}

#else

typedef struct {
    char none;
} brief_lock;

static inline void brief_lock_init(brief_lock *lock)
{
    lock->none = 0;
}

static inline void brief_lock_end(brief_lock *lock)
{
    (void)lock;
}

static inline void brief_lock_take(brief_lock *lock)
{
    (void)lock;
}

static inline void brief_lock_give(brief_lock *lock)
{
    (void)lock;
}

static inline void add_to(int64_t *number, int64_t what)
{
    *number += what;
}

static inline int add_within(int64_t *number, int64_t what, int64_t most)
{
    if (*number + what > most)
        return 0;
    *number += what;
    return 1;
}

#endif
