/* The strings of JSON: where they end, whether they are right, and what they say.
 *
 * A string is checked once, in whole, when its end is looked for: escapes, control characters and UTF-8. What comes
 * later relies on it, and no text is longer than the bytes it was written with. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* From behind the opening quote to the closing one; NULL with the reason in `problem`. `escaped` is set where the
 * bytes in between are not the text itself. */
const uint8_t *json_string_end(const uint8_t *p, const uint8_t *end, uint8_t quote, int *escaped,
                               const char **problem);

/* Writes the text of a checked string and returns its length, at most end - p. Half a surrogate pair becomes '?', as
 * it does in Spark. */
size_t json_unescape(const uint8_t *p, const uint8_t *end, uint8_t *out);

/* Writes what base64 stands for, at most 3/4 of its length; -1 where it is none. Blanks may stand between groups of
 * four, and padding is required: MIME without line feeds. */
int64_t json_base64(const uint8_t *p, const uint8_t *end, uint8_t *out);
