/* Floats and doubles as JSON: the shortest digits that are read back as the same number, in the form of Java.
 *
 * From a thousandth up to ten million a number is plain (0.001, 100.0), beyond that it has an exponent (1.0E-5,
 * 1.2E10). What is no number is a string. This is what Double.toString gives from Java 19 on; before, some numbers had
 * more digits than they need. */
#pragma once

#include <stdint.h>

/* Behind what was written, for which there has to be room for JSON_MOST_LEAF bytes. */
uint8_t *json_put_double(uint8_t *p, double value);
uint8_t *json_put_float(uint8_t *p, float value);
