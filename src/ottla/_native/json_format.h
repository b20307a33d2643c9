/* Values of columns as the text of JSON, in the forms that Spark's to_json gives them.
 *
 * What these write goes behind `p`, where there is room for it, and they return what is behind that. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    JSON_MOST_LEAF = 64,   /* the longest text of anything but strings and binary, with its quotes */
    JSON_MOST_ESCAPED = 6, /* bytes that one byte of a string becomes at most: \u001F */
};

uint8_t *json_put_integer(uint8_t *p, int64_t value);

/* As Java's BigDecimal writes itself, which is with an exponent from seven places behind the point on: 1.0E-7. */
uint8_t *json_put_decimal(uint8_t *p, __int128 value, int scale);

/* With quotes, and at least four digits of the year; more have a sign: "+10000-01-01". */
uint8_t *json_put_date(uint8_t *p, int64_t days);
/* Milliseconds, whatever is behind them: "2026-05-01T12:00:00.000Z", without a zone where the column has none. */
uint8_t *json_put_timestamp(uint8_t *p, int64_t microseconds, int has_zone);

/* A string without its quotes, which may come in parts; room for JSON_MOST_ESCAPED times its length. */
uint8_t *json_put_escaped(uint8_t *p, const uint8_t *text, size_t length);

/* Without line feeds, with padding, without quotes; a part that is not the last has a multiple of three bytes. */
uint8_t *json_put_base64(uint8_t *p, const uint8_t *bytes, size_t length);
