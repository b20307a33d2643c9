#include "json_text.h"

#include <string.h>

#include "utf8.h"

#define ONES 0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* The high bit of each byte that a plain string does not hold: the quote, a backslash, control characters, and
 * whatever is not ASCII. The lowest mark is right; above it a borrow may mark too much. */
static inline uint64_t marks(uint64_t word, uint64_t quotes)
{
    uint64_t quote = word ^ quotes, backslash = word ^ (ONES * '\\');
    return ((word - ONES * 0x20) | (quote - ONES) | (backslash - ONES) | word) & HIGHS;
}

/* To the first byte that needs a look. */
static inline const uint8_t *skip_plain(const uint8_t *p, const uint8_t *end, uint8_t quote)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - p >= 8) {
        uint64_t word, found;
        memcpy(&word, p, 8);
        found = marks(word, ONES * quote);
        if (found != 0)
            return p + __builtin_ctzll(found) / 8;
        p += 8;
    }
#endif
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != quote && *p != '\\')
        p++;
    return p;
}

static inline int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Behind the escape that begins with the backslash at `p`; NULL where it is none. */
static const uint8_t *skip_escape(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 2)
        return NULL;
    switch (p[1]) {
    case '"': case '\'': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return p + 2;
    case 'u':
        if (end - p < 6)
            return NULL;
        for (int i = 2; i < 6; i++)
            if (hex_digit(p[i]) < 0)
                return NULL;
        return p + 6;
    default:
        return NULL;
    }
}

const uint8_t *json_string_end(const uint8_t *p, const uint8_t *end, uint8_t quote, int *escaped,
                               const char **problem)
{
    *escaped = 0;
    for (;;) {
        p = skip_plain(p, end, quote);
        if (p == end) {
            *problem = "a string does not end";
            return NULL;
        }
        if (*p == quote)
            return p;
        if (*p == '\\') {
            *escaped = 1;
            p = skip_escape(p, end);
            *problem = "a backslash begins no escape of JSON";
        } else if (*p >= 0x80) {
            p = utf8_skip(p, end);
            *problem = "a string is not UTF-8";
        } else {
            p = NULL;
            *problem = "a string has a control character that is not escaped";
        }
        if (p == NULL)
            return NULL;
    }
}

static inline uint32_t hex4(const uint8_t *p)
{
    return (uint32_t)(hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 | hex_digit(p[3]));
}

static size_t put_character(uint32_t code, uint8_t *out)
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xc0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (code & 0x3f));
    return 4;
}

/* Reads \uXXXX, and a second one where they are a pair. */
static const uint8_t *read_unicode(const uint8_t *p, const uint8_t *end, uint32_t *code)
{
    *code = hex4(p + 2);
    p += 6;
    if (*code < 0xd800 || *code > 0xdfff)
        return p;
    if (*code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        uint32_t low = hex4(p + 2);
        if (low >= 0xdc00 && low <= 0xdfff) {
            *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
            return p + 6;
        }
    }
    *code = '?';
    return p;
}

static uint8_t unescaped(uint8_t letter)
{
    switch (letter) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return letter;
    }
}

size_t json_unescape(const uint8_t *p, const uint8_t *end, uint8_t *out)
{
    uint8_t *start = out;
    while (p < end) {
        const uint8_t *backslash = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((backslash == NULL ? end : backslash) - p);
        memcpy(out, p, plain);
        out += plain;
        p += plain;
        if (p == end)
            break;
        if (p[1] == 'u') {
            uint32_t code;
            p = read_unicode(p, end, &code);
            out += put_character(code, out);
        } else {
            *out++ = unescaped(p[1]);
            p += 2;
        }
    }
    return (size_t)(out - start);
}

static inline int base64_digit(uint8_t byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

int64_t json_base64(const uint8_t *p, const uint8_t *end, uint8_t *out)
{
    uint8_t *start = out;
    for (;;) {
        while (p < end && *p <= ' ')
            p++;
        if (p == end)
            return out - start;
        if (end - p < 4)
            return -1;
        int a = base64_digit(p[0]), b = base64_digit(p[1]), c = base64_digit(p[2]), d = base64_digit(p[3]);
        int padding = p[3] != '=' ? 0 : p[2] != '=' ? 1 : 2;
        if (a < 0 || b < 0 || (c < 0 && padding < 2) || (d < 0 && padding < 1))
            return -1;
        *out++ = (uint8_t)(a << 2 | b >> 4);
        if (padding < 2)
            *out++ = (uint8_t)(b << 4 | c >> 2);
        if (padding < 1)
            *out++ = (uint8_t)(c << 6 | d);
        p += 4;
    }
}
