/* The numbers of JSON: their grammar, and exact conversion to integers, floats and decimals. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Jackson's limit: more is refused before anything is made of it. */
enum { JSON_MOST_DIGITS = 1000 };

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

struct json_number {
    const uint8_t *start;
    const uint8_t *end;
    uint64_t mantissa;  /* the digits as one number, where `exact` */
    int32_t exponent;   /* of ten */
    uint8_t negative;
    uint8_t is_integer; /* neither fraction nor exponent was written */
    uint8_t exact;      /* at most 19 digits: `mantissa` is all of them */
};

/* Reads the number at `p` and returns what is behind it; NULL with the reason in `problem`. */
const uint8_t *json_number_read(const uint8_t *p, const uint8_t *end, struct json_number *number,
                                const char **problem);

/* 0, or -1 where it is no whole number of that range. */
int json_number_integer(const struct json_number *number, int64_t least, int64_t most, int64_t *out);

/* Rounded correctly; beyond the range they are infinite. */
double json_number_double(const struct json_number *number);
float json_number_float(const struct json_number *number);

/* A decimal as text: what a number of JSON may be, and also a plus, commas, and a point at either end, as in Spark's
 * own reading of strings. Rounded half up to `scale`; -1 where it is none, or has more than `precision` digits. */
int json_decimal(const uint8_t *p, const uint8_t *end, int precision, int scale, int128 *out);
