#define _GNU_SOURCE
#include "json_number.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

enum { EXACT_DIGITS = 19, MOST_EXPONENT = 100000 };

static inline int is_digit(const uint8_t *p, const uint8_t *end)
{
    return p < end && (uint8_t)(*p - '0') < 10;
}

/* Appends digits to the mantissa; how many there may be is for the caller to check. */
static inline const uint8_t *read_digits(const uint8_t *p, const uint8_t *end, uint64_t *mantissa)
{
    uint64_t value = *mantissa;
    while (is_digit(p, end))
        value = value * 10 + (uint8_t)(*p++ - '0');
    *mantissa = value;
    return p;
}

/* An exponent beyond what any type holds is as good as the largest. */
static const uint8_t *read_exponent(const uint8_t *p, const uint8_t *end, int32_t *exponent)
{
    int negative = p < end && *p == '-';
    int32_t value = 0;
    if (p < end && (*p == '+' || *p == '-'))
        p++;
    if (!is_digit(p, end))
        return NULL;
    for (; is_digit(p, end); p++)
        if (value < MOST_EXPONENT)
            value = value * 10 + (*p - '0');
    *exponent = negative ? -value : value;
    return p;
}

const uint8_t *json_number_read(const uint8_t *p, const uint8_t *end, struct json_number *number,
                                const char **problem)
{
    const uint8_t *digits;
    ptrdiff_t count;
    number->start = p;
    number->negative = *p == '-';
    number->mantissa = 0;
    number->exponent = 0;
    number->is_integer = 1;
    *problem = "a number is not written as JSON writes numbers";
    p += number->negative;
    digits = p;
    p = read_digits(p, end, &number->mantissa);
    count = p - digits;
    if (count == 0 || (*digits == '0' && count > 1))
        return NULL;
    if (p < end && *p == '.') {
        const uint8_t *fraction = ++p;
        p = read_digits(p, end, &number->mantissa);
        if (p == fraction)
            return NULL;
        number->is_integer = 0;
        number->exponent = -(int32_t)(p - fraction < MOST_EXPONENT ? p - fraction : MOST_EXPONENT);
        count += p - fraction;
    }
    if (p < end && (*p | 0x20) == 'e') {
        int32_t exponent;
        p = read_exponent(p + 1, end, &exponent);
        if (p == NULL)
            return NULL;
        number->is_integer = 0;
        number->exponent += exponent;
    }
    if (p - digits > JSON_MOST_DIGITS) {
        *problem = "a number has more than 1000 digits";
        return NULL;
    }
    number->exact = count <= EXACT_DIGITS;
    number->end = p;
    return p;
}

int json_number_integer(const struct json_number *number, int64_t least, int64_t most, int64_t *out)
{
    uint64_t mantissa = number->mantissa;
    uint64_t limit = number->negative ? (uint64_t)0 - (uint64_t)least : (uint64_t)most;
    if (!number->is_integer || !number->exact || mantissa > limit)
        return -1;
    *out = (int64_t)(number->negative ? (uint64_t)0 - mantissa : mantissa);
    return 0;
}

/* Powers of ten that a double, or a float, holds exactly: with a mantissa that it holds too, one operation rounds
 * once, which is correct. */
static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const float FLOAT_POWERS[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};

/* The library's own conversion, in the language that has a point. */
static locale_t c_locale(void)
{
    static locale_t made;
    locale_t found = __atomic_load_n(&made, __ATOMIC_ACQUIRE);
    if (found == (locale_t)0) {
        found = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        __atomic_store_n(&made, found, __ATOMIC_RELEASE);
    }
    return found;
}

static void copy_digits(const struct json_number *number, char *out)
{
    size_t length = (size_t)(number->end - number->start);
    memcpy(out, number->start, length);
    out[length] = 0;
}

double json_number_double(const struct json_number *number)
{
    char text[JSON_MOST_DIGITS + 2];
    int32_t exponent = number->exponent;
    if (number->exact && number->mantissa <= (1ull << 53) && exponent >= -22 && exponent <= 22) {
        double value = (double)number->mantissa;
        value = exponent < 0 ? value / POWERS[-exponent] : value * POWERS[exponent];
        /* -0 is an integer and has no sign; -0.0 has one. */
        return number->negative && !(number->is_integer && number->mantissa == 0) ? -value : value;
    }
    copy_digits(number, text);
    return strtod_l(text, NULL, c_locale());
}

float json_number_float(const struct json_number *number)
{
    char text[JSON_MOST_DIGITS + 2];
    int32_t exponent = number->exponent;
    if (number->exact && number->mantissa <= (1ull << 24) && exponent >= -10 && exponent <= 10) {
        float value = (float)number->mantissa;
        value = exponent < 0 ? value / FLOAT_POWERS[-exponent] : value * FLOAT_POWERS[exponent];
        return number->negative && !(number->is_integer && number->mantissa == 0) ? -value : value;
    }
    copy_digits(number, text);
    return strtof_l(text, NULL, c_locale());
}

/* The digits of a decimal without leading zeros, and where its point is. */
struct decimal {
    const uint8_t *p;   /* the first digit that counts */
    const uint8_t *end; /* behind the last; a point and commas may lie in between */
    int64_t before;     /* how many digits stand before the point: negative where zeros follow it */
    int negative;
};

static int is_filler(uint8_t byte)
{
    return byte == ',' || byte == '.';
}

static int split_decimal(const uint8_t *p, const uint8_t *end, struct decimal *out)
{
    int digits = 0, points = 0, significant = 0;
    int32_t exponent = 0;
    while (p < end && *p == ',')
        p++;
    out->negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    out->before = 0;
    out->p = p;
    for (; p < end && (is_digit(p, end) || is_filler(*p)); p++) {
        if (*p == '.') {
            points++;
        } else if (*p != ',') {
            digits++;
            significant |= *p != '0';
            out->before += points == 0 ? significant : -(significant == 0);
        }
        if (!significant)
            out->p = p + 1;
    }
    out->end = p;
    if (digits == 0 || points > 1)
        return -1;
    if (p < end && (*p | 0x20) == 'e') {
        p = read_exponent(p + 1, end, &exponent);
        if (p == NULL)
            return -1;
    }
    while (p < end && *p == ',')
        p++;
    out->before += exponent;
    return p == end ? 0 : -1;
}

int json_decimal(const uint8_t *p, const uint8_t *end, int precision, int scale, int128 *out)
{
    struct decimal decimal;
    uint128 value = 0, limit = 1;
    if (split_decimal(p, end, &decimal) < 0)
        return -1;
    int64_t wanted = decimal.before + scale; /* how many of its digits the result has */
    for (p = decimal.p; p < decimal.end && wanted > 0; p++) {
        if (is_filler(*p))
            continue;
        if (wanted-- > precision)
            return -1;
        value = value * 10 + (uint128)(*p - '0');
    }
    while (p < decimal.end && is_filler(*p))
        p++;
    if (wanted == 0 && p < decimal.end && *p >= '5')
        value++;
    for (; wanted > 0 && value != 0; wanted--) {
        if (wanted > precision)
            return -1;
        value *= 10;
    }
    for (int i = 0; i < precision; i++)
        limit *= 10;
    if (value >= limit)
        return -1;
    *out = decimal.negative ? -(int128)value : (int128)value;
    return 0;
}
