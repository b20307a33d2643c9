#include "json_format.h"

#include <string.h>

static const char PAIRS[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
                            "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
                            "9899";

static inline uint8_t *put_two(uint8_t *p, unsigned value)
{
    memcpy(p, PAIRS + 2 * value, 2);
    return p + 2;
}

static inline int digits_of(uint64_t value)
{
    int digits = 1;
    for (; value >= 10000; value /= 10000)
        digits += 4;
    return digits + (value >= 10) + (value >= 100) + (value >= 1000);
}

/* The last `digits` of a number, with zeros in front. */
static inline void put_digits(uint8_t *p, uint64_t value, int digits)
{
    for (; digits >= 2; value /= 100) {
        digits -= 2;
        put_two(p + digits, (unsigned)(value % 100));
    }
    if (digits == 1)
        *p = (uint8_t)('0' + value % 10);
}

static inline uint8_t *put_natural(uint8_t *p, uint64_t value)
{
    int digits = digits_of(value);
    put_digits(p, value, digits);
    return p + digits;
}

uint8_t *json_put_integer(uint8_t *p, int64_t value)
{
    if (value >= 0)
        return put_natural(p, (uint64_t)value);
    *p++ = '-';
    return put_natural(p, 0 - (uint64_t)value);
}

/* Decimals */

/* All digits of it; at most 39. */
static uint8_t *put_large(uint8_t *p, unsigned __int128 value)
{
    const uint64_t base = UINT64_C(1000000000000000000);
    enum { BASE_DIGITS = 18 };
    if (value <= UINT64_MAX)
        return put_natural(p, (uint64_t)value);
    p = put_large(p, value / base);
    put_digits(p, (uint64_t)(value % base), BASE_DIGITS);
    return p + BASE_DIGITS;
}

uint8_t *json_put_decimal(uint8_t *p, __int128 value, int scale)
{
    enum { LEAST_PLAIN_EXPONENT = -6 };
    uint8_t digits[40];
    if (value < 0)
        *p++ = '-';
    int count = (int)(put_large(digits, value < 0 ? 0 - (unsigned __int128)value : (unsigned __int128)value) - digits);
    int exponent = count - 1 - scale;
    int whole = exponent < LEAST_PLAIN_EXPONENT ? 1 : count - scale;
    if (whole > 0) {
        memcpy(p, digits, (size_t)whole);
        p += whole;
    } else {
        *p++ = '0';
    }
    int behind = whole > 0 ? count - whole : count;
    if (behind > 0) {
        *p++ = '.';
        for (; whole < 0; whole++)
            *p++ = '0';
        memcpy(p, digits + count - behind, (size_t)behind);
        p += behind;
    }
    if (exponent < LEAST_PLAIN_EXPONENT) {
        *p++ = 'E';
        p = json_put_integer(p, exponent);
    }
    return p;
}

/* Times */

static uint8_t *put_year(uint8_t *p, int64_t year)
{
    enum { DIGITS = 4 };
    uint64_t size = year < 0 ? (uint64_t)-year : (uint64_t)year;
    if (year < 0)
        *p++ = '-';
    else if (year > 9999)
        *p++ = '+';
    if (size > 9999)
        return put_natural(p, size);
    put_digits(p, size, DIGITS);
    return p + DIGITS;
}

/* Counted in years that begin in March, so that the leap day is the last; 400 years have 146097 days. */
static uint8_t *put_day(uint8_t *p, int64_t days)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * month + 2) / 5 + 1;
    month += month < 10 ? 3 : -9;
    p = put_year(p, year_of_era + era * 400 + (month <= 2));
    *p++ = '-';
    p = put_two(p, (unsigned)month);
    *p++ = '-';
    return put_two(p, (unsigned)day);
}

uint8_t *json_put_date(uint8_t *p, int64_t days)
{
    *p++ = '"';
    p = put_day(p, days);
    *p++ = '"';
    return p;
}

static inline int64_t floored(int64_t value, int64_t divisor)
{
    return value / divisor - (value % divisor < 0);
}

uint8_t *json_put_timestamp(uint8_t *p, int64_t microseconds, int has_zone)
{
    enum { DAY = 86400000 };
    int64_t milliseconds = floored(microseconds, 1000);
    int64_t days = floored(milliseconds, DAY);
    unsigned of_day = (unsigned)(milliseconds - days * DAY);
    *p++ = '"';
    p = put_day(p, days);
    *p++ = 'T';
    p = put_two(p, of_day / 3600000);
    *p++ = ':';
    p = put_two(p, of_day / 60000 % 60);
    *p++ = ':';
    p = put_two(p, of_day / 1000 % 60);
    *p++ = '.';
    *p++ = (uint8_t)('0' + of_day / 100 % 10);
    p = put_two(p, of_day % 100);
    if (has_zone)
        *p++ = 'Z';
    *p++ = '"';
    return p;
}

/* Strings */

static inline int is_escaped(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

static uint8_t *put_escape(uint8_t *p, uint8_t byte)
{
    static const char HEX[] = "0123456789ABCDEF";
    static const uint8_t SHORT[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r',
    };
    uint8_t letter = byte < 0x20 ? SHORT[byte] : byte;
    *p++ = '\\';
    if (letter != 0) {
        *p++ = letter;
        return p;
    }
    memcpy(p, "u00", 3);
    p[3] = (uint8_t)HEX[byte >> 4];
    p[4] = (uint8_t)HEX[byte & 15];
    return p + 5;
}

/* Whether any of eight bytes needs an escape. A borrow goes up only from a byte that does. */
static inline int any_escaped(uint64_t eight)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    uint64_t quotes = eight ^ (ones * '"'), backslashes = eight ^ (ones * '\\');
    uint64_t found = ((eight - ones * 0x20) & ~eight) | ((quotes - ones) & ~quotes) | ((backslashes - ones) & ~backslashes);
    return (found & highs) != 0;
}

uint8_t *json_put_escaped(uint8_t *p, const uint8_t *text, size_t length)
{
    const uint8_t *end = text + length;
    while (text < end) {
        uint64_t eight;
        for (; end - text >= (ptrdiff_t)sizeof eight; text += sizeof eight, p += sizeof eight) {
            memcpy(&eight, text, sizeof eight);
            if (any_escaped(eight))
                break;
            memcpy(p, &eight, sizeof eight);
        }
        while (text < end && !is_escaped(*text))
            *p++ = *text++;
        if (text < end)
            p = put_escape(p, *text++);
    }
    return p;
}

uint8_t *json_put_base64(uint8_t *p, const uint8_t *bytes, size_t length)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (; length >= 3; bytes += 3, length -= 3) {
        uint32_t three = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
        *p++ = (uint8_t)DIGITS[three >> 18];
        *p++ = (uint8_t)DIGITS[three >> 12 & 63];
        *p++ = (uint8_t)DIGITS[three >> 6 & 63];
        *p++ = (uint8_t)DIGITS[three & 63];
    }
    if (length == 0)
        return p;
    uint32_t rest = (uint32_t)bytes[0] << 16 | (length == 2 ? (uint32_t)bytes[1] << 8 : 0);
    *p++ = (uint8_t)DIGITS[rest >> 18];
    *p++ = (uint8_t)DIGITS[rest >> 12 & 63];
    *p++ = length == 2 ? (uint8_t)DIGITS[rest >> 6 & 63] : '=';
    *p++ = '=';
    return p;
}
