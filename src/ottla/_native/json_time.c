#include "json_time.h"

#include <stddef.h>
#include <string.h>

enum { MOST_OFFSET = 18 * 3600, DATE_YEAR_DIGITS = 7, TIMESTAMP_YEAR_DIGITS = 6 };

struct moment {
    int64_t year;
    int month, day, hour, minute, second;
    int microsecond;
    int offset; /* seconds east of UTC */
};

static inline int is_digit(const uint8_t *p, const uint8_t *end)
{
    return p < end && (uint8_t)(*p - '0') < 10;
}

static void trim(const uint8_t **p, const uint8_t **end)
{
    while (*p < *end && **p <= ' ')
        (*p)++;
    while (*p < *end && (*end)[-1] <= ' ')
        (*end)--;
}

/* One or two digits; NULL where there are none, or more. */
static inline const uint8_t *read_two(const uint8_t *p, const uint8_t *end, int *out)
{
    if (!is_digit(p, end))
        return NULL;
    *out = *p++ - '0';
    if (is_digit(p, end))
        *out = *out * 10 + (*p++ - '0');
    return is_digit(p, end) ? NULL : p;
}

static const uint8_t *read_year(const uint8_t *p, const uint8_t *end, int most_digits, int64_t *out)
{
    int negative = p < end && *p == '-';
    const uint8_t *digits = p += p < end && (*p == '-' || *p == '+');
    int64_t year = 0;
    while (is_digit(p, end) && p - digits < most_digits)
        year = year * 10 + (*p++ - '0');
    if (p - digits < 4 || is_digit(p, end))
        return NULL;
    *out = negative ? -year : year;
    return p;
}

static int is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int is_day(const struct moment *moment)
{
    static const uint8_t LENGTHS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (moment->month < 1 || moment->month > 12 || moment->day < 1)
        return 0;
    return moment->day <= LENGTHS[moment->month - 1] + (moment->month == 2 && is_leap(moment->year));
}

/* Counted in years that begin in March, so that the leap day is the last; 400 years have 146097 days. */
static int64_t days_since_epoch(const struct moment *moment)
{
    int64_t year = moment->year - (moment->month <= 2);
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t month = (moment->month + 9) % 12;
    int64_t day_of_year = (153 * month + 2) / 5 + moment->day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

/* Year, and month and day where they are written; behind them, or NULL. */
static const uint8_t *read_day(const uint8_t *p, const uint8_t *end, int year_digits, struct moment *out)
{
    out->month = out->day = 1;
    p = read_year(p, end, year_digits, &out->year);
    if (p == NULL || p == end)
        return p;
    if (*p != '-')
        return NULL;
    p = read_two(p + 1, end, &out->month);
    if (p == NULL || p == end)
        return p;
    return *p == '-' ? read_two(p + 1, end, &out->day) : NULL;
}

int json_date(const uint8_t *p, const uint8_t *end, int32_t *out)
{
    struct moment moment;
    trim(&p, &end);
    p = read_day(p, end, DATE_YEAR_DIGITS, &moment);
    if (p == NULL || (p < end && *p != ' ' && *p != 'T') || !is_day(&moment))
        return -1;
    int64_t days = days_since_epoch(&moment);
    if (days < INT32_MIN || days > INT32_MAX)
        return -1;
    *out = (int32_t)days;
    return 0;
}

/* Behind the sign: h, hh, h:m, hh:mm, hhmm, hh:mm:ss or hhmmss. */
static int read_offset(const uint8_t *p, const uint8_t *end, int *seconds)
{
    int hour = 0, minute = 0, second = 0;
    const uint8_t *digits = p;
    while (is_digit(p, end))
        p++;
    ptrdiff_t count = p - digits;
    if (count == 4 || count == 6) {
        hour = (digits[0] - '0') * 10 + digits[1] - '0';
        minute = (digits[2] - '0') * 10 + digits[3] - '0';
        if (count == 6)
            second = (digits[4] - '0') * 10 + digits[5] - '0';
    } else {
        p = read_two(digits, end, &hour);
        if (p != NULL && p < end && *p == ':') {
            const uint8_t *colon = p;
            p = read_two(p + 1, end, &minute);
            if (p != NULL && p < end && *p == ':') {
                /* With seconds every part has two digits. */
                if (colon - digits != 2 || p - colon != 3 || end - p != 3)
                    return -1;
                p = read_two(p + 1, end, &second);
            }
        }
    }
    if (p != end || minute > 59 || second > 59)
        return -1;
    *seconds = hour * 3600 + minute * 60 + second;
    return *seconds <= MOST_OFFSET ? 0 : -1;
}

static int has_prefix(const uint8_t *p, const uint8_t *end, const char *prefix)
{
    size_t length = strlen(prefix);
    return (size_t)(end - p) >= length && memcmp(p, prefix, length) == 0;
}

static int read_zone(const uint8_t *p, const uint8_t *end, int *offset)
{
    trim(&p, &end);
    *offset = 0;
    if (end - p == 1 && *p == 'Z')
        return 0;
    if (end - p == 4 && has_prefix(p, end, "GMT0"))
        return 0;
    if (has_prefix(p, end, "UTC") || has_prefix(p, end, "GMT"))
        p += 3;
    else if (has_prefix(p, end, "UT"))
        p += 2;
    else if (p == end)
        return -1;
    if (p == end)
        return 0;
    if (*p != '+' && *p != '-')
        return -1;
    if (read_offset(p + 1, end, offset) < 0)
        return -1;
    if (*p == '-')
        *offset = -*offset;
    return 0;
}

/* Six digits count; further ones are cut off. */
static const uint8_t *read_fraction(const uint8_t *p, const uint8_t *end, int *microsecond)
{
    int value = 0, digits = 0;
    for (; is_digit(p, end); p++)
        if (digits < 6) {
            value = value * 10 + (*p - '0');
            digits++;
        }
    for (; digits < 6; digits++)
        value *= 10;
    *microsecond = value;
    return p;
}

/* What follows the T: to the end, or -1. */
static int read_time(const uint8_t *p, const uint8_t *end, int zone_allowed, struct moment *out)
{
    p = read_two(p, end, &out->hour);
    if (p == NULL || p == end)
        return p == NULL ? -1 : 0;
    if (*p != ':' || (p = read_two(p + 1, end, &out->minute)) == NULL)
        return -1;
    if (p == end)
        return 0;
    if (*p != ':' || (p = read_two(p + 1, end, &out->second)) == NULL)
        return -1;
    if (p < end && *p == '.')
        p = read_fraction(p + 1, end, &out->microsecond);
    if (p == end)
        return 0;
    return zone_allowed ? read_zone(p, end, &out->offset) : -1;
}

int json_timestamp(const uint8_t *p, const uint8_t *end, int zone_allowed, int64_t *out)
{
    struct moment moment = {0};
    trim(&p, &end);
    p = read_day(p, end, TIMESTAMP_YEAR_DIGITS, &moment);
    if (p == NULL || !is_day(&moment))
        return -1;
    if (p < end && ((*p != ' ' && *p != 'T') || read_time(p + 1, end, zone_allowed, &moment) < 0))
        return -1;
    if (moment.hour > 23 || moment.minute > 59 || moment.second > 59)
        return -1;
    int64_t seconds = days_since_epoch(&moment) * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second;
    int64_t micros;
    if (__builtin_mul_overflow(seconds - moment.offset, (int64_t)1000000, &micros)
        || __builtin_add_overflow(micros, (int64_t)moment.microsecond, out))
        return -1;
    return 0;
}
