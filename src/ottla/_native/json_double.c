#include "json_double.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 0.d1d2d3... times ten to the power of `point`, without zeros at the end. */
struct digits {
    char text[32];
    int count;
    int point;
};

/* Digits */

static void strip(struct digits *digits)
{
    while (digits->count > 1 && digits->text[digits->count - 1] == '0')
        digits->count--;
}

/* Of a number below 10^15. */
static void from_integer(struct digits *digits, int64_t number, int places)
{
    char backwards[24];
    int count = 0;
    for (; number > 0; number /= 10)
        backwards[count++] = (char)('0' + number % 10);
    for (int i = 0; i < count; i++)
        digits->text[i] = backwards[count - 1 - i];
    digits->count = count;
    digits->point = count - places;
    strip(digits);
}

/* What printf made of a number, whose decimal point is that of the locale. */
static void from_printed(struct digits *digits, const char *printed)
{
    const char *exponent = strchr(printed, 'e');
    digits->count = 0;
    for (const char *p = printed; p < exponent; p++)
        if (*p >= '0' && *p <= '9')
            digits->text[digits->count++] = *p;
    digits->point = atoi(exponent + 1) + 1;
}

/* The next larger number with as many digits. */
static void increment(struct digits *digits)
{
    int at = digits->count - 1;
    while (at >= 0 && digits->text[at] == '9')
        digits->text[at--] = '0';
    if (at >= 0) {
        digits->text[at]++;
        return;
    }
    digits->text[0] = '1';
    digits->point++;
}

/* Reads them back without a point, which no locale changes. */
static void as_text(const struct digits *digits, char *out, size_t size)
{
    snprintf(out, size, "%.*se%d", digits->count, digits->text, digits->point - digits->count);
}

static int is_double(const struct digits *digits, double value)
{
    char text[48];
    as_text(digits, text, sizeof text);
    return strtod(text, NULL) == value;
}

static int is_float(const struct digits *digits, float value)
{
    char text[48];
    as_text(digits, text, sizeof text);
    return strtof(text, NULL) == value;
}

/* The shortest ones */

/* A power of two has its lower neighbour closer than its upper one: the nearest digits may be those of the lower one
 * where the next ones above are its own. */
static int search(struct digits *digits, double value, int is_single, int first, int last)
{
    int exponent;
    int is_power = frexp(value, &exponent) == 0.5;
    for (int count = first; count <= last; count++) {
        char printed[48];
        snprintf(printed, sizeof printed, "%.*e", count - 1, value);
        from_printed(digits, printed);
        for (int neighbour = 0; neighbour <= is_power; neighbour++) {
            if (neighbour == 1)
                increment(digits);
            if (is_single ? is_float(digits, (float)value) : is_double(digits, value)) {
                strip(digits);
                return 0;
            }
        }
    }
    return -1;
}

/* Quotients of two numbers that are exact are rounded as the text of their digits is: so they are compared instead.
 * Up to DBL_DIG digits no two of them are the same number, so that these are the shortest. */
static int few_places_double(struct digits *digits, double value)
{
    static const double POWERS[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    for (int places = 0; places < 10; places++) {
        double scaled = value * POWERS[places];
        if (!(scaled < 1e15))
            return -1;
        int64_t number = (int64_t)(scaled + 0.5);
        if (number > 0 && (double)number / POWERS[places] == value && number < INT64_C(1000000000000000)) {
            from_integer(digits, number, places);
            return 0;
        }
    }
    return -1;
}

static int few_places_float(struct digits *digits, float value)
{
    static const float POWERS[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f};
    for (int places = 0; places < 6; places++) {
        float scaled = value * POWERS[places];
        if (!(scaled < 1e6f))
            return -1;
        int64_t number = (int64_t)(scaled + 0.5f);
        if (number > 0 && (float)number / POWERS[places] == value && number < 1000000) {
            from_integer(digits, number, places);
            return 0;
        }
    }
    return -1;
}

static void double_digits(struct digits *digits, double value)
{
    if (few_places_double(digits, value) == 0)
        return;
    /* The smallest numbers have fewer digits than others; Java writes two at least, and those that are nearest. */
    search(digits, value, 0, value < DBL_MIN ? 2 : DBL_DIG, 17);
}

static void float_digits(struct digits *digits, float value)
{
    if (few_places_float(digits, value) == 0)
        return;
    search(digits, value, 1, value < FLT_MIN ? 2 : FLT_DIG, 9);
}

/* Java's form */

static uint8_t *put_some(uint8_t *p, const struct digits *digits, int from, int to)
{
    if (from >= to)
        *p++ = '0';
    for (int i = from; i < to; i++)
        *p++ = i < digits->count ? (uint8_t)digits->text[i] : '0';
    return p;
}

static uint8_t *put_exponent(uint8_t *p, int exponent)
{
    *p++ = 'E';
    if (exponent < 0) {
        *p++ = '-';
        exponent = -exponent;
    }
    if (exponent >= 100)
        *p++ = (uint8_t)('0' + exponent / 100);
    if (exponent >= 10)
        *p++ = (uint8_t)('0' + exponent / 10 % 10);
    *p++ = (uint8_t)('0' + exponent % 10);
    return p;
}

static uint8_t *put_number(uint8_t *p, const struct digits *digits)
{
    enum { LEAST_PLAIN = -2, MOST_PLAIN = 7 };
    int whole = digits->point;
    if (whole < LEAST_PLAIN || whole > MOST_PLAIN) {
        *p++ = (uint8_t)digits->text[0];
        *p++ = '.';
        p = put_some(p, digits, 1, digits->count);
        return put_exponent(p, digits->point - 1);
    }
    p = put_some(p, digits, 0, whole);
    *p++ = '.';
    for (; whole < 0; whole++)
        *p++ = '0';
    return put_some(p, digits, whole, digits->count);
}

static uint8_t *put_text(uint8_t *p, const char *text)
{
    size_t length = strlen(text);
    memcpy(p, text, length);
    return p + length;
}

/* A number that has no digits; NULL for others, of which the sign is written. */
static uint8_t *put_special(uint8_t **p, double value)
{
    if (isnan(value))
        return put_text(*p, "\"NaN\"");
    if (isinf(value))
        return put_text(*p, value < 0 ? "\"-Infinity\"" : "\"Infinity\"");
    if (signbit(value))
        *(*p)++ = '-';
    return value == 0 ? put_text(*p, "0.0") : NULL;
}

uint8_t *json_put_double(uint8_t *p, double value)
{
    struct digits digits;
    uint8_t *end = put_special(&p, value);
    if (end != NULL)
        return end;
    double_digits(&digits, fabs(value));
    return put_number(p, &digits);
}

uint8_t *json_put_float(uint8_t *p, float value)
{
    struct digits digits;
    uint8_t *end = put_special(&p, value);
    if (end != NULL)
        return end;
    float_digits(&digits, fabsf(value));
    return put_number(p, &digits);
}
