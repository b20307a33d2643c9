/* UTF-8: whether bytes are it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline int utf8_is_tail(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Behind one character of two to four bytes; NULL where it is not UTF-8: overlong, a surrogate, beyond the last. */
static inline const uint8_t *utf8_skip(const uint8_t *p, const uint8_t *end)
{
    ptrdiff_t left = end - p;
    uint8_t first = p[0];
    if (first < 0xc2)
        return NULL;
    if (first < 0xe0)
        return left >= 2 && utf8_is_tail(p[1]) ? p + 2 : NULL;
    if (first < 0xf0) {
        if (left < 3 || !utf8_is_tail(p[1]) || !utf8_is_tail(p[2]))
            return NULL;
        if ((first == 0xe0 && p[1] < 0xa0) || (first == 0xed && p[1] >= 0xa0))
            return NULL;
        return p + 3;
    }
    if (first > 0xf4 || left < 4 || !utf8_is_tail(p[1]) || !utf8_is_tail(p[2]) || !utf8_is_tail(p[3]))
        return NULL;
    if ((first == 0xf0 && p[1] < 0x90) || (first == 0xf4 && p[1] >= 0x90))
        return NULL;
    return p + 4;
}

/* What most text is; its bytes are looked at together, as a branch for each costs more than they do. */
static inline int utf8_is_ascii(const uint8_t *p, size_t length)
{
    uint64_t found = 0, word;
    uint32_t first, last;
    if (length >= 8) {
        const uint8_t *rest = p + length - 8;
        for (; p < rest; p += 8) {
            memcpy(&word, p, 8);
            found |= word;
        }
        memcpy(&word, rest, 8);
        found |= word;
    } else if (length >= 4) {
        memcpy(&first, p, 4);
        memcpy(&last, p + length - 4, 4);
        found = first | last;
    } else if (length > 0) {
        found = (uint64_t)(p[0] | p[length / 2] | p[length - 1]);
    }
    return (found & 0x8080808080808080ull) == 0;
}

static inline int utf8_is_valid(const uint8_t *p, size_t length)
{
    const uint8_t *end = p + length;
    if (__builtin_expect(utf8_is_ascii(p, length), 1))
        return 1;
    while (p < end) {
        uint64_t word;
        if (end - p >= 8) {
            memcpy(&word, p, 8);
            if ((word & 0x8080808080808080ull) == 0) {
                p += 8;
                continue;
            }
        }
        if (*p < 0x80) {
            p++;
            continue;
        }
        p = utf8_skip(p, end);
        if (p == NULL)
            return 0;
    }
    return 1;
}
